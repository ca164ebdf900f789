// The quantised KV cache of FFD: choice of the layout, memory, lengths.
#include <algorithm>

#include "dumps/base/error.h"
#include "kernels/decode/ffd_cache_cuda.h"
#include "kernels/decode/fused/ffd_fused_cuda.h"
#include "kernels/decode/reference/ffd_reference_cuda.h"
#include "kernels/device/cuda_check.h"
#include "kernels/device/scratch_layout.h"

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
  if (shape_.layout == FfdCacheLayout::fragments && !has_ffd_fused_kernels())
    throw DeviceError(
        "FFD decode: the layout of tensor cores needs a GPU of compute capability 9.0 or later, and a build for it");
  if (shape_.layout == FfdCacheLayout::automatic)
    shape_.layout =
        fits_fragments(shape_) && has_ffd_fused_kernels() ? FfdCacheLayout::fragments : FfdCacheLayout::row_major;
  const FfdBlockBytes block = ffd_block_bytes(shape_);
  const std::int64_t pairs = shape_.pairs(), blocks = pairs * shape_.max_blocks();
  const std::int64_t keys = std::int64_t{2} * kFfdBlock * shape_.head_dim,
                     values = std::int64_t{2} * kFfdBlock * shape_.value_dim;
  std::byte *full_values = nullptr, *last_keys = nullptr, *tail_values = nullptr, *sink_keys = nullptr;
  const auto place = [&](std::byte* base) {
    ScratchLayout layout(base);
    layout.take(view_.records, blocks * block.record);
    layout.take(view_.residual, blocks * block.residual);
    layout.take(full_values, blocks * block.values);
    layout.take(last_keys, pairs * 2 * keys);
    layout.take(tail_values, pairs * values);
    layout.take(sink_keys, pairs * keys);
    layout.take(view_.lengths, shape_.batch);
    return layout.used();
  };
  const std::size_t used = place(nullptr);
  memory_.reserve(used);
  place(memory_.data());
  view_.values = full_values, view_.last_keys = last_keys, view_.tail_values = tail_values;
  view_.sink_keys = sink_keys;
  // An empty cache: no tokens, and zeros where a weight of 0 will meet a value.
  ATTEST_CUDA(cudaMemset(last_keys, 0, static_cast<std::size_t>(memory_.data() + used - last_keys)));
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
  view_.equal_lengths = std::all_of(lengths, lengths + shape_.batch, [&](int length) { return length == lengths[0]; });
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
