// Generates keys on the device, and copies those of a dump to it.
#include <cmath>
#include <span>
#include <vector>

#include "analysis/decode_bench/decode_inputs_cuda.h"
#include "analysis/decode_bench/element_cuda.cuh"
#include "analysis/decode_bench/tiling.h"
#include "kernels/decode/base/ffd_shape.h"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

constexpr int kThreads = 256, kBlocks = 2048;

/// Scores, in nats above the noise, of the first tokens, and the most of a leaning token.
constexpr float kSink = 14, kMaxLean = 14;
constexpr int kSinkTokens = 4, kLeaningTokens = 8, kCluster = 4;
/// Noise of most channels, and of one in kLoudEvery.
constexpr float kQuiet = 0.7f, kLoud = 3;
constexpr int kLoudEvery = 23;

/// SplitMix64, as in dumps/synthetic/counter_random.h.
__device__ std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
/// In (0, 1).
__device__ float uniform(std::uint64_t x) { return (static_cast<float>(mixed(x) >> 40) + 0.5f) * 0x1p-24f; }
__device__ float gaussian(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t x = mixed(key ^ mixed(index));
  return sqrtf(-2 * logf(uniform(x))) * cospif(2 * uniform(x + 1));
}

template <class T>
__global__ void fill_gaussian(T* out, std::int64_t count, std::uint64_t key) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count; i += stride)
    out[i] = rounded_to<T>(gaussian(key, static_cast<std::uint64_t>(i)));
}

/// How far token `t` of pair leans, in nats, and towards which head of the group: -1, all.
__device__ float lean(std::uint64_t key, std::int64_t pair, std::int64_t t, int group, int& head) {
  const std::int64_t block = t / kFfdBlock;
  const int at = static_cast<int>(t % kFfdBlock);
  head = -1;
  if (block == 0) return at < kSinkTokens ? kSink : 0;
  const std::uint64_t own = key ^ mixed(static_cast<std::uint64_t>(pair));
  const float share = 0.02f + 0.14f * uniform(own);
  const auto cluster = static_cast<std::uint64_t>(block / kCluster);
  if (uniform(own ^ mixed(2 * cluster)) >= share) return 0;
  const std::uint64_t of_block = own ^ mixed(2 * static_cast<std::uint64_t>(block) + 1);
  const auto first = static_cast<int>(mixed(of_block) % kFfdBlock);
  const int step = (at - first + kFfdBlock) % kFfdBlock;
  if (step % 13 != 0 || step / 13 >= kLeaningTokens) return 0;
  head = step / 13 % group;
  return kMaxLean * uniform(of_block + 1);
}

/// k [pairs, length, D] of q [pairs, G, D]: a thread per (pair, token).
template <class T>
__global__ void fill_keys(T* k, const T* q, std::int64_t length, int dim, int group, std::uint64_t key) {
  const std::int64_t pair = blockIdx.y, stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t t = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; t < length; t += stride) {
    int head = 0;
    // A key p * q / sqrt(D) has the score p * norm(q)^2 / D, which is p on average.
    const float push = lean(key, pair, t, group, head) * rsqrtf(static_cast<float>(dim));
    T* row = k + (pair * length + t) * dim;
    for (int c = 0; c < dim; ++c) {
      const float noise = c % kLoudEvery == 5 ? kLoud : kQuiet;
      float x = noise * gaussian(key + 1, static_cast<std::uint64_t>((pair * length + t) * dim + c));
      if (push != 0)
        for (int h = 0; h < group; ++h)
          if (head < 0 || head == h) x += push * as_float(q[(pair * group + h) * dim + c]);
      row[c] = rounded_to<T>(x);
    }
  }
}

DecodeInputs allocate(const KernelInputs& what) {
  DecodeInputs inputs;
  inputs.what = what;
  inputs.scale = 1 / std::sqrt(static_cast<double>(what.shape.head_dim));
  const std::int64_t keys = inputs.pairs() * what.length;
  inputs.q.reserve(static_cast<std::size_t>(2 * inputs.rows() * what.shape.head_dim));
  inputs.k.reserve(static_cast<std::size_t>(2 * keys * what.shape.head_dim));
  inputs.v.reserve(static_cast<std::size_t>(2 * keys * what.shape.value_dim));
  return inputs;
}

template <class T>
void generate(const DecodeInputs& inputs, std::uint64_t seed, cudaStream_t stream) {
  const KernelInputs& what = inputs.what;
  const int dim = what.shape.head_dim, group = what.shape.group();
  T* q = reinterpret_cast<T*>(inputs.q.data());
  const std::uint64_t key = seed * 0x9E3779B97F4A7C15u;
  fill_gaussian<<<kBlocks, kThreads, 0, stream>>>(q, inputs.rows() * dim, key + 11);
  ATTEST_CUDA_LAUNCHED(fill_gaussian);
  const dim3 grid(64, static_cast<unsigned>(inputs.pairs()));
  fill_keys<<<grid, kThreads, 0, stream>>>(reinterpret_cast<T*>(inputs.k.data()), q, what.length, dim, group, key);
  ATTEST_CUDA_LAUNCHED(fill_keys);
  fill_gaussian<<<kBlocks, kThreads, 0, stream>>>(reinterpret_cast<T*>(inputs.v.data()),
                                                  inputs.pairs() * what.length * what.shape.value_dim, key + 12);
  ATTEST_CUDA_LAUNCHED(fill_gaussian);
}

/// The same bytes for every sequence. Waits, because `values` may go.
void repeat_to(const DeviceBuffer& to, std::span<const std::byte> values, int batch, cudaStream_t stream) {
  for (int b = 0; b < batch; ++b)
    ATTEST_CUDA(cudaMemcpyAsync(to.data() + static_cast<std::size_t>(b) * values.size(), values.data(), values.size(),
                                cudaMemcpyHostToDevice, stream));
  ATTEST_CUDA(cudaStreamSynchronize(stream));
}

}  // namespace

std::int64_t decode_input_bytes(const KernelInputs& what) {
  const AttentionShape& s = what.shape;
  const std::int64_t keys = static_cast<std::int64_t>(what.batch) * s.num_kv_heads * what.length;
  return 2 * (keys * (s.head_dim + s.value_dim) + std::int64_t{what.batch} * s.num_query_heads * s.head_dim);
}

DecodeInputs generated_inputs(const KernelInputs& what, std::uint64_t seed, cudaStream_t stream) {
  DecodeInputs inputs = allocate(what);
  with_element(what.element_type, [&](auto element) { generate<decltype(element)>(inputs, seed, stream); });
  return inputs;
}

DecodeInputs inputs_of_layer(const KernelInputs& what, const AttentionLayer& layer, cudaStream_t stream) {
  DecodeInputs inputs = allocate(what);
  inputs.scale = layer.softmax_scale;
  const AttentionShape& s = what.shape;
  const std::vector<std::int64_t> tokens = tiled_tokens(layer.query_positions[0] + 1, what.length);
  const auto bytes = [](const LayerBuffer& buffer) { return std::span<const std::byte>(buffer.data(), buffer.size()); };
  const auto tiled = [&](const LayerBuffer& values, int channels) {
    return gather_tokens(bytes(values), s.num_kv_heads, layer.num_tokens, 2 * channels, tokens);
  };
  repeat_to(inputs.q, bytes(layer.q).first(static_cast<std::size_t>(2 * s.num_query_heads * s.head_dim)), what.batch,
            stream);
  repeat_to(inputs.k, tiled(layer.k, s.head_dim), what.batch, stream);
  repeat_to(inputs.v, tiled(layer.v, s.value_dim), what.batch, stream);
  return inputs;
}

}  // namespace attest
