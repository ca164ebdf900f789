// The quantised KV cache of FFD: choice of the layout, memory, lengths.
#include "dumps/base/error.h"
#include "kernels/decode/ffd_cache_cuda.h"
#include "kernels/decode/fused/ffd_fused_cuda.h"
#include "kernels/decode/reference/ffd_reference_cuda.h"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {
namespace {

__global__ void advance_lengths(int* lengths, int batch, int max_tokens) {
  const int b = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (b < batch && lengths[b] < max_tokens) ++lengths[b];
}

}  // namespace

FfdBlockBytes ffd_block_bytes(const FfdCacheShape& shape) {
  return shape.layout == FfdCacheLayout::fragments ? ffd_fragments_block_bytes(shape)
                                                   : ffd_reference_block_bytes(shape);
}

FfdCache::FfdCache(const FfdCacheShape& shape) : shape_(shape) {
  check_shape(shape_);
  if (shape_.layout == FfdCacheLayout::fragments && device_attribute(cudaDevAttrComputeCapabilityMajor) < 9)
    throw DeviceError("FFD decode: the layout of tensor cores needs a GPU of compute capability 9.0 or later");
  if (shape_.layout == FfdCacheLayout::automatic)
    shape_.layout = ffd_fragments_fit(shape_) ? FfdCacheLayout::fragments : FfdCacheLayout::row_major;
  const FfdBlockBytes block = ffd_block_bytes(shape_);
  const std::int64_t pairs = shape_.pairs(), blocks = pairs * shape_.max_blocks();
  const std::int64_t keys = std::int64_t{2} * kFfdBlock * shape_.head_dim,
                     values = std::int64_t{2} * kFfdBlock * shape_.value_dim;
  std::size_t used = 0;
  const auto place = [&used](std::int64_t bytes) {
    const std::size_t at = used;
    used += (static_cast<std::size_t>(bytes) + 255) / 256 * 256;
    return at;
  };
  const std::size_t records = place(blocks * block.record), residual = place(blocks * block.residual),
                    full_values = place(blocks * block.values), last_keys = place(pairs * 2 * keys),
                    tail_values = place(pairs * values), sink_keys = place(pairs * keys),
                    lengths = place(shape_.batch * static_cast<std::int64_t>(sizeof(int)));
  memory_.reserve(used);
  std::byte* base = memory_.data();
  view_ = {.records = reinterpret_cast<std::uint8_t*>(base + records),
           .residual = reinterpret_cast<std::uint8_t*>(base + residual),
           .values = base + full_values,
           .last_keys = base + last_keys,
           .tail_values = base + tail_values,
           .sink_keys = base + sink_keys,
           .lengths = reinterpret_cast<int*>(base + lengths)};
  // An empty cache: no tokens, and zeros where a weight of 0 will meet a value.
  ATTEST_CUDA(cudaMemset(base + last_keys, 0, used - last_keys));
  if (shape_.layout == FfdCacheLayout::fragments) {
    FfdFusedParams unused;
    scratch_.reserve(ffd_fused_scratch(shape_, nullptr, unused));
    ATTEST_CUDA(cudaMemset(scratch_.data(), 0, ffd_fused_zeroed_bytes(shape_)));
  } else {
    scratch_.reserve(ffd_reference_scratch_bytes(shape_));
    ATTEST_CUDA(cudaMemset(scratch_.data(), 0, scratch_.size()));
  }
  ATTEST_CUDA(cudaDeviceSynchronize());  // other streams may use it from here on
}

void FfdCache::build(const void* k, const void* v, std::int64_t stride, const int* lengths, cudaStream_t stream) {
  for (int b = 0; b < shape_.batch; ++b) check_length(shape_, b, lengths[b], stride);
  ATTEST_CUDA(cudaMemcpyAsync(view_.lengths, lengths, sizeof(int) * static_cast<std::size_t>(shape_.batch),
                              cudaMemcpyHostToDevice, stream));
  (shape_.layout == FfdCacheLayout::fragments ? cuda_ffd_fragments_build : cuda_ffd_reference_build)(shape_, view_, k,
                                                                                                     v, stride, stream);
}

void FfdCache::append(const void* k, const void* v, cudaStream_t stream) {
  (shape_.layout == FfdCacheLayout::fragments ? cuda_ffd_fragments_append : cuda_ffd_reference_append)(shape_, view_, k,
                                                                                                       v, stream);
  constexpr int kThreads = 128;
  advance_lengths<<<static_cast<unsigned>((shape_.batch + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      view_.lengths, shape_.batch, static_cast<int>(shape_.max_tokens));
  ATTEST_CUDA_LAUNCHED(advance_lengths);
}

}  // namespace attest
