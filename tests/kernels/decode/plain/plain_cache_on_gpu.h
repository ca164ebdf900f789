// A plain FFD cache in the memory of a test, and its decode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/decode/plain/ffd_plain_cuda.h"
#include "tests/kernels/decode/decode_results.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {

/// All bits of its memory are set until something is written.
class PlainCacheOnGpu {
 public:
  FfdCacheShape shape;
  FfdCacheView view;

  PlainCacheOnGpu(const FfdCacheShape& of, const std::vector<int>& lengths, Gpu& gpu) : shape(of), gpu_(gpu) {
    const FfdBlockBytes block = ffd_plain_block_bytes(shape);
    const std::int64_t blocks = shape.pairs() * shape.max_blocks(), own = 2 * shape.pairs() * kFfdBlock;
    view.records = take(blocks * block.record);
    view.residual = take(blocks * block.residual);
    view.values = take(blocks * block.values);
    view.last_keys = take(2 * own * shape.head_dim);
    view.tail_values = take(own * shape.value_dim);
    view.sink_keys = take(own * shape.head_dim);
    view.lengths = gpu.upload(lengths);
  }

  void build(const DecodeProblem& problem) {
    cuda_ffd_plain_build(shape, view, upload(problem.k), upload(problem.v), problem.stride, gpu_.stream);
  }

  /// Appends token positions[sequence] of the problem to every sequence, whose length then is lengths[sequence].
  void append(const DecodeProblem& problem, const std::vector<int>& positions, const std::vector<int>& lengths) {
    const DeviceArena::Scope scope(gpu_.arena);
    std::vector<float> k, v;
    for (std::int64_t pair = 0; pair < shape.pairs(); ++pair) {
      const int token = positions[static_cast<std::size_t>(pair / shape.num_kv_heads)];
      k.insert(k.end(), problem.key(pair, token), problem.key(pair, token) + shape.head_dim);
      v.insert(v.end(), problem.value(pair, token), problem.value(pair, token) + shape.value_dim);
    }
    cuda_ffd_plain_append(shape, view, upload(k), upload(v), gpu_.stream);
    ATTEST_CUDA(cudaMemcpyAsync(view.lengths, lengths.data(), lengths.size() * sizeof(int), cudaMemcpyHostToDevice,
                                gpu_.stream));
    gpu_.stream.synchronize();
  }

  DecodeResults decode(const DecodeProblem& problem) {
    const auto rows = static_cast<std::size_t>(shape.pairs() * shape.group);
    const std::size_t elements = rows * static_cast<std::size_t>(shape.value_dim);
    auto* out = gpu_.arena.take<std::uint16_t>(elements);
    auto* lse = gpu_.arena.take<float>(rows);
    auto* kept = gpu_.arena.take<int>(static_cast<std::size_t>(shape.pairs()));
    auto* scratch = static_cast<std::byte*>(gpu_.arena.take_bytes(ffd_plain_scratch_bytes(shape)));
    cuda_ffd_plain_decode(shape, view, scratch, problem.options,
                          {.q = upload(problem.q),
                           .delta = gpu_.upload(problem.delta),
                           .sinks = problem.sinks.empty() ? nullptr : gpu_.upload(problem.sinks),
                           .out = out,
                           .lse = lse,
                           .kept = kept},
                          gpu_.stream);
    return {floats_of(shape.element_type, gpu_.download(out, elements)), gpu_.download(lse, rows),
            gpu_.download(kept, static_cast<std::size_t>(shape.pairs()))};
  }

  const std::uint16_t* upload(const std::vector<float>& values) {
    return gpu_.upload(bits_of(shape.element_type, values));
  }
  template <class T>
  std::vector<T> download(const void* from, std::int64_t count) const {
    return gpu_.download(static_cast<const T*>(from), static_cast<std::size_t>(count));
  }
  /// Every array but the lengths.
  std::vector<std::vector<std::uint8_t>> bytes() const {
    std::vector<std::vector<std::uint8_t>> all;
    for (const auto& [data, count] : arrays_) all.push_back(download<std::uint8_t>(data, count));
    return all;
  }

 private:
  std::uint8_t* take(std::int64_t bytes) {
    auto* data = gpu_.arena.take<std::uint8_t>(static_cast<std::size_t>(bytes));
    ATTEST_CUDA(cudaMemsetAsync(data, 0xFF, static_cast<std::size_t>(bytes), gpu_.stream));
    arrays_.push_back({data, bytes});
    return data;
  }

  struct Array {
    const std::uint8_t* data;
    std::int64_t bytes;
  };
  Gpu& gpu_;
  std::vector<Array> arrays_;
};

}  // namespace attest::test
