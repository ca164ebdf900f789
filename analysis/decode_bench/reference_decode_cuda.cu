// Scores, margins and attention of the reference decode: a thread per token, then sums in a fixed order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "analysis/decode_bench/element_cuda.cuh"
#include "analysis/decode_bench/reference_decode_cuda.h"
#include "kernels/decode/base/ffd_shape.h"
#include "kernels/device/cuda_check.h"
#include "kernels/quantize/rounding_cuda.cuh"

namespace attest {
namespace {

constexpr int kHeadsAtOnce = 16, kThreads = 128, kSplits = 64, kTile = 128;
constexpr double kLowest = -std::numeric_limits<double>::infinity();

struct Shape {
  int head_dim = 0, value_dim = 0, group = 0;
  std::int64_t length = 0;
  double scale = 1;

  __host__ __device__ std::int64_t blocks() const { return length / kFfdBlock; }
};

Shape shape_of(const DecodeInputs& inputs) {
  const KernelInputs& what = inputs.what;
  return {.head_dim = what.shape.head_dim,
          .value_dim = what.shape.value_dim,
          .group = what.shape.group(),
          .length = what.length,
          .scale = inputs.scale};
}

/// scales [pairs, blocks, D] = max(max |k| / z, 1e-8), as ffd_scales() (kernels/quantize/ffd_thumbnail.h).
template <class T>
__global__ void scales_kernel(const T* k, Shape shape, float z, float* scales) {
  const std::int64_t pair = blockIdx.y, block = blockIdx.x;
  for (int c = static_cast<int>(threadIdx.x); c < shape.head_dim; c += static_cast<int>(blockDim.x)) {
    float largest = 0;
    for (int t = 0; t < kFfdBlock; ++t)
      largest = fmaxf(largest, fabsf(as_float(k[(pair * shape.length + block * kFfdBlock + t) * shape.head_dim + c])));
    scales[(pair * shape.blocks() + block) * shape.head_dim + c] = fmaxf(__fdiv_rn(largest, z), 1e-8f);
  }
}

/// estimates and refined [rows, length]. bits 16: both are exact.
template <class T>
__global__ void scores_kernel(const T* q, const T* k, const float* scales, Shape shape, int bits, double* estimates,
                              double* refined) {
  const std::int64_t pair = blockIdx.y, stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const float highest = static_cast<float>((1 << bits) - 1), z = highest / 2;
  for (std::int64_t t = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; t < shape.length;
       t += stride) {
    const bool quantised = bits < 16 && t / kFfdBlock < shape.blocks();
    for (int first = 0; first < shape.group; first += kHeadsAtOnce) {
      const int heads = min(kHeadsAtOnce, shape.group - first);
      const std::int64_t row = pair * shape.group + first;
      double estimate[kHeadsAtOnce] = {}, fine[kHeadsAtOnce] = {};
      for (int c = 0; c < shape.head_dim; ++c) {
        const float key = as_float(k[(pair * shape.length + t) * shape.head_dim + c]);
        double low = key, high = key;
        if (quantised) {
          const float scale = scales[(pair * shape.blocks() + t / kFfdBlock) * shape.head_dim + c];
          const float position = __fadd_rn(__fdiv_rn(key, scale), z);
          const float thumbnail = __fmul_rn(rintf(fminf(fmaxf(position, 0.0f), highest)) - z, scale);
          low = thumbnail;
          high = low + rounded_to_e4m3(__fsub_rn(key, thumbnail));
        }
        for (int h = 0; h < heads; ++h) {
          const double query = as_float(q[(row + h) * shape.head_dim + c]);
          estimate[h] += query * low;
          fine[h] += query * high;
        }
      }
      for (int h = 0; h < heads; ++h) {
        estimates[(row + h) * shape.length + t] = shape.scale * estimate[h];
        refined[(row + h) * shape.length + t] = shape.scale * fine[h];
      }
    }
  }
}

/// A thread per (row, sub-block): its largest score and, if `offsets` is not null, its sum of exp(s - offsets[row]).
__global__ void sub_blocks_kernel(const double* estimates, Shape shape, int sub_block, const double* offsets,
                                  double* out) {
  const std::int64_t row = blockIdx.y, subs = shape.blocks() * (kFfdBlock / sub_block);
  const std::int64_t sub = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (sub >= subs) return;
  const double* scores = estimates + row * shape.length + sub * sub_block;
  double value = offsets == nullptr ? kLowest : 0;
  for (int t = 0; t < sub_block; ++t)
    value = offsets == nullptr ? fmax(value, scores[t]) : value + exp(scores[t] - offsets[row]);
  out[row * subs + sub] = value;
}

__device__ bool is_read(const std::uint8_t* kept, Shape shape, int sub_block, std::int64_t pair, std::int64_t t) {
  if (kept == nullptr || t / kFfdBlock >= shape.blocks()) return true;
  return kept[pair * shape.blocks() * (kFfdBlock / sub_block) + t / sub_block] != 0;
}

/// The largest score that is read: a block per row.
__global__ void maxima_kernel(const double* scores, const std::uint8_t* kept, Shape shape, int sub_block,
                              double* maxima) {
  __shared__ double own[kThreads];
  const std::int64_t row = blockIdx.x;
  double largest = kLowest;
  for (std::int64_t t = threadIdx.x; t < shape.length; t += kThreads)
    if (is_read(kept, shape, sub_block, row / shape.group, t)) largest = fmax(largest, scores[row * shape.length + t]);
  own[threadIdx.x] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kThreads; ++i) largest = fmax(largest, own[i]);
  maxima[row] = largest;
}

/// partial [rows, kSplits, Dv + 1]: sums of w v, and of w = exp(s - max), over a share of the tokens.
template <class T>
__global__ void sums_kernel(const double* scores, const double* maxima, const std::uint8_t* kept, const T* v,
                            Shape shape, int sub_block, double* partial) {
  __shared__ double weights[kTile];
  const std::int64_t row = blockIdx.x, pair = row / shape.group, split = blockIdx.y;
  const std::int64_t begin = shape.length * split / kSplits, end = shape.length * (split + 1) / kSplits;
  double* out = partial + (row * kSplits + split) * (shape.value_dim + 1);
  for (int first = 0; first <= shape.value_dim; first += kThreads) {
    const int c = first + static_cast<int>(threadIdx.x);  // channel value_dim: the sum of weights
    double sum = 0;
    for (std::int64_t tile = begin; tile < end; tile += kTile) {
      const std::int64_t t = tile + threadIdx.x;
      __syncthreads();
      weights[threadIdx.x] =
          t < end && is_read(kept, shape, sub_block, pair, t) ? exp(scores[row * shape.length + t] - maxima[row]) : 0.0;
      __syncthreads();
      const int count = static_cast<int>(min(static_cast<std::int64_t>(kTile), end - tile));
      for (int i = 0; i < count && c <= shape.value_dim; ++i)
        sum +=
            weights[i] * (c < shape.value_dim
                              ? static_cast<double>(as_float(v[(pair * shape.length + tile + i) * shape.value_dim + c]))
                              : 1.0);
    }
    if (c <= shape.value_dim) out[c] = sum;
  }
}
static_assert(kThreads == kTile, "a thread per weight");

std::vector<double> to_host(const std::byte* from, std::int64_t count, cudaStream_t stream) {
  std::vector<double> values(static_cast<std::size_t>(count));
  ATTEST_CUDA(cudaMemcpyAsync(values.data(), from, values.size() * sizeof(double), cudaMemcpyDeviceToHost, stream));
  ATTEST_CUDA(cudaStreamSynchronize(stream));
  return values;
}

std::size_t bytes_of(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(double); }

double* doubles(const DeviceBuffer& buffer) { return reinterpret_cast<double*>(buffer.data()); }

}  // namespace

ReferenceDecode::ReferenceDecode(const DecodeInputs& inputs, cudaStream_t stream)
    : inputs_(inputs),
      stream_(stream),
      estimates_(bytes_of(inputs.rows() * inputs.what.length)),
      refined_(bytes_of(inputs.rows() * inputs.what.length)),
      partial_(bytes_of(inputs.rows() * kSplits * (inputs.what.shape.value_dim + 1))) {}

std::int64_t ReferenceDecode::bytes(const KernelInputs& what) {
  const std::int64_t rows = std::int64_t{what.batch} * what.shape.num_query_heads;
  const std::int64_t scales = std::int64_t{what.batch} * what.shape.num_kv_heads * what.length / kFfdBlock;
  return 8 * rows * (2 * what.length + kSplits * (what.shape.value_dim + 1)) + 4 * scales * what.shape.head_dim;
}

void ReferenceDecode::score(int bits) {
  if (scored_bits_ == bits) return;
  scored_bits_ = 0;
  const Shape shape = shape_of(inputs_);
  const DeviceBuffer scales(
      static_cast<std::size_t>(std::max<std::int64_t>(1, inputs_.pairs() * shape.blocks() * shape.head_dim)) *
      sizeof(float));
  float* scale = reinterpret_cast<float*>(scales.data());
  const auto pairs = static_cast<unsigned>(inputs_.pairs());
  with_element(inputs_.what.element_type, [&](auto element) {
    using T = decltype(element);
    const T* k = reinterpret_cast<const T*>(inputs_.k.data());
    if (bits < 16 && shape.blocks() > 0) {
      const float z = static_cast<float>((1 << bits) - 1) / 2;
      scales_kernel<<<dim3(static_cast<unsigned>(shape.blocks()), pairs), kThreads, 0, stream_>>>(k, shape, z, scale);
      ATTEST_CUDA_LAUNCHED(scales_kernel);
    }
    scores_kernel<<<dim3(256, pairs), kThreads, 0, stream_>>>(reinterpret_cast<const T*>(inputs_.q.data()), k, scale,
                                                              shape, bits, doubles(estimates_), doubles(refined_));
    ATTEST_CUDA_LAUNCHED(scores_kernel);
  });
  ATTEST_CUDA(cudaStreamSynchronize(stream_));  // `scales` goes
  scored_bits_ = bits;
}

const ReferenceOutput& ReferenceDecode::exact() {
  if (exact_.lse.empty()) exact_ = attend(16, {});
  return exact_;
}

std::vector<double> ReferenceDecode::maxima(int bits, int sub_block) {
  score(bits);
  return of_sub_blocks(sub_block, nullptr);
}

std::vector<double> ReferenceDecode::masses(int sub_block) {
  const std::vector<double> largest = maxima(16, sub_block);
  const auto rows = static_cast<std::size_t>(inputs_.rows()), subs = largest.size() / rows;
  if (subs == 0) return {};
  std::vector<double> offsets(rows);
  const auto part = [&](const std::vector<double>& all, std::size_t row) {
    return std::span(all).subspan(row * subs, subs);
  };
  for (std::size_t row = 0; row < rows; ++row) offsets[row] = std::ranges::max(part(largest, row));
  const DeviceBuffer on_device(bytes_of(inputs_.rows()));
  ATTEST_CUDA(cudaMemcpyAsync(on_device.data(), offsets.data(), on_device.size(), cudaMemcpyHostToDevice, stream_));
  std::vector<double> masses = of_sub_blocks(sub_block, doubles(on_device));
  for (std::size_t row = 0; row < rows; ++row) {
    const auto own = part(masses, row);
    const double total = std::accumulate(own.begin(), own.end(), 0.0);
    for (std::size_t sub = 0; sub < subs; ++sub) masses[row * subs + sub] /= total;
  }
  return masses;
}

std::vector<double> ReferenceDecode::of_sub_blocks(int sub_block, const double* offsets) {
  const Shape shape = shape_of(inputs_);
  const std::int64_t subs = shape.blocks() * (kFfdBlock / sub_block), count = inputs_.rows() * subs;
  if (count == 0) return {};
  const DeviceBuffer out(bytes_of(count));
  const dim3 grid(static_cast<unsigned>((subs + kThreads - 1) / kThreads), static_cast<unsigned>(inputs_.rows()));
  sub_blocks_kernel<<<grid, kThreads, 0, stream_>>>(doubles(estimates_), shape, sub_block, offsets, doubles(out));
  ATTEST_CUDA_LAUNCHED(sub_blocks_kernel);
  return to_host(out.data(), count, stream_);
}

ReferenceOutput ReferenceDecode::attend(int bits, const KeptBlocks& kept) {
  score(bits);
  const double* scores = doubles(refined_);
  const Shape shape = shape_of(inputs_);
  const std::int64_t rows = inputs_.rows(), width = shape.value_dim + 1;
  const DeviceBuffer flags(std::max<std::size_t>(1, kept.kept.size())), maxima(bytes_of(rows));
  ATTEST_CUDA(cudaMemcpyAsync(flags.data(), kept.kept.data(), kept.kept.size(), cudaMemcpyHostToDevice, stream_));
  const auto* flag = kept.kept.empty() ? nullptr : reinterpret_cast<const std::uint8_t*>(flags.data());
  maxima_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream_>>>(scores, flag, shape, kept.sub_block,
                                                                       doubles(maxima));
  ATTEST_CUDA_LAUNCHED(maxima_kernel);
  with_element(inputs_.what.element_type, [&](auto element) {
    using T = decltype(element);
    sums_kernel<<<dim3(static_cast<unsigned>(rows), kSplits), kThreads, 0, stream_>>>(
        scores, doubles(maxima), flag, reinterpret_cast<const T*>(inputs_.v.data()), shape, kept.sub_block,
        doubles(partial_));
    ATTEST_CUDA_LAUNCHED(sums_kernel);
  });
  const std::vector<double> partial = to_host(partial_.data(), rows * kSplits * width, stream_);
  const std::vector<double> largest = to_host(maxima.data(), rows, stream_);
  ReferenceOutput output{.out = std::vector<double>(static_cast<std::size_t>(rows * shape.value_dim)),
                         .lse = std::vector<double>(static_cast<std::size_t>(rows))};
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> sums(static_cast<std::size_t>(width));
    for (std::int64_t i = 0; i < kSplits * width; ++i)
      sums[static_cast<std::size_t>(i % width)] += partial[static_cast<std::size_t>(row * kSplits * width + i)];
    for (int c = 0; c < shape.value_dim; ++c)
      output.out[static_cast<std::size_t>(row * shape.value_dim + c)] = sums[static_cast<std::size_t>(c)] / sums.back();
    output.lse[static_cast<std::size_t>(row)] = largest[static_cast<std::size_t>(row)] + std::log(sums.back());
  }
  return output;
}

}  // namespace attest
