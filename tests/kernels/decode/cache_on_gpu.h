// An FfdCache of a problem, and its calls.
#pragma once

#include <vector>

#include "tests/kernels/decode/decode_results.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {

class CacheOnGpu {
 public:
  CacheOnGpu(const DecodeProblem& problem, Gpu& gpu) : CacheOnGpu(problem, problem.lengths, gpu) {}
  /// The first lengths[b] tokens of each sequence.
  CacheOnGpu(const DecodeProblem& problem, const std::vector<int>& lengths, Gpu& gpu)
      : cache(problem.shape),
        problem_(problem),
        gpu_(gpu),
        q_(upload(problem.q)),
        delta_(gpu.upload(problem.delta)),
        sinks_(problem.sinks.empty() ? nullptr : gpu.upload(problem.sinks)) {
    const auto rows = static_cast<std::size_t>(shape().pairs() * shape().group);
    out_ = gpu.arena.take<std::uint16_t>(rows * static_cast<std::size_t>(shape().value_dim));
    lse_ = gpu.arena.take<float>(rows);
    kept_ = gpu.arena.take<int>(static_cast<std::size_t>(shape().pairs()));
    cache.build(upload(problem.k), upload(problem.v), problem.stride, lengths.data(), gpu.stream);
    gpu.stream.synchronize();
  }

  FfdCache cache;
  const FfdCacheShape& shape() const { return cache.shape(); }

  /// Appends token positions[b] of the problem to sequence b.
  void append(const std::vector<int>& positions) {
    const DeviceArena::Scope scope(gpu_.arena);
    std::vector<float> k, v;
    for (std::int64_t pair = 0; pair < shape().pairs(); ++pair) {
      const int token = positions[static_cast<std::size_t>(pair / shape().num_kv_heads)];
      k.insert(k.end(), problem_.key(pair, token), problem_.key(pair, token) + shape().head_dim);
      v.insert(v.end(), problem_.value(pair, token), problem_.value(pair, token) + shape().value_dim);
    }
    cache.append(upload(k), upload(v), gpu_.stream);
    gpu_.stream.synchronize();
  }

  void enqueue(const FfdDecodeOptions& options, const FfdDeal* deal = nullptr) {
    cuda_ffd_decode(cache, options, {q_, delta_, sinks_, out_, lse_, kept_}, gpu_.stream, deal);
  }
  DecodeResults results() const {
    const auto rows = static_cast<std::size_t>(shape().pairs() * shape().group);
    return {floats_of(shape().element_type, gpu_.download(static_cast<const std::uint16_t*>(out_),
                                                          rows * static_cast<std::size_t>(shape().value_dim))),
            gpu_.download(static_cast<const float*>(lse_), rows),
            gpu_.download(static_cast<const int*>(kept_), static_cast<std::size_t>(shape().pairs()))};
  }
  /// What was there before must not look like a result.
  void clear_results() {
    const auto rows = static_cast<std::size_t>(shape().pairs() * shape().group);
    ATTEST_CUDA(cudaMemsetAsync(out_, 0xFF, rows * static_cast<std::size_t>(shape().value_dim) * 2, gpu_.stream));
    ATTEST_CUDA(cudaMemsetAsync(lse_, 0xFF, rows * sizeof(float), gpu_.stream));
    ATTEST_CUDA(cudaMemsetAsync(kept_, 0xFF, static_cast<std::size_t>(shape().pairs()) * sizeof(int), gpu_.stream));
  }
  DecodeResults decode(const FfdDecodeOptions& options, const FfdDeal* deal = nullptr) {
    clear_results();
    enqueue(options, deal);
    return results();
  }

  const std::uint16_t* upload(const std::vector<float>& values) {
    return gpu_.upload(bits_of(shape().element_type, values));
  }
  const std::uint16_t* q() const { return q_; }

 private:
  const DecodeProblem& problem_;
  Gpu& gpu_;
  const std::uint16_t* q_;
  const float *delta_, *sinks_;
  std::uint16_t* out_ = nullptr;
  float* lse_ = nullptr;
  int* kept_ = nullptr;
};

}  // namespace attest::test
