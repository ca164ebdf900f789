// FFD's decode as plainly as kernels can say it, a launch for each step, on a cache in row-major order. It takes any
// head_dim and value_dim up to 576 and any GPU; the fused kernel (fused/ffd_fused.cuh) does the same faster.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/decode/base/ffd_call.h"

namespace attest {

FfdBlockBytes ffd_reference_block_bytes(const FfdCacheShape& shape);
/// Scratch memory of a decode or a scan of such a cache.
std::size_t ffd_reference_scratch_bytes(const FfdCacheShape& shape);

/// Fills the cache from k [batch, Hkv, stride, D] and v [batch, Hkv, stride, Dv]. view.lengths is set already.
void cuda_ffd_reference_build(const FfdCacheShape& shape, const FfdCacheView& view, const void* k, const void* v,
                              std::int64_t stride, cudaStream_t stream);

/// Puts one token of every sequence, k [batch, Hkv, D] and v [batch, Hkv, Dv], at position view.lengths[sequence], and
/// quantises the block that it fills. The caller increments the lengths afterwards. A sequence of max_tokens tokens
/// stays as it is.
void cuda_ffd_reference_append(const FfdCacheShape& shape, const FfdCacheView& view, const void* k, const void* v,
                               cudaStream_t stream);

/// `scratch` holds ffd_reference_scratch_bytes(), aligned to 256. call.kept may be null. pseudo_max = exact looks at
/// one sink block and one local block, or at none where their number is 0.
void cuda_ffd_reference_decode(const FfdCacheShape& shape, const FfdCacheView& view, std::byte* scratch,
                               const FfdDecodeOptions& options, const FfdDecodeCall& call, cudaStream_t stream);

/// Nothing is written for blocks that a sequence does not fill.
void cuda_ffd_reference_scan(const FfdCacheShape& shape, const FfdCacheView& view, std::byte* scratch,
                             const FfdDecodeOptions& options, const FfdScanCall& call, cudaStream_t stream);

}  // namespace attest
