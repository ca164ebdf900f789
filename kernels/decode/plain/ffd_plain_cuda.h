// The plain layout of FFD's cache and its decode: any head_dim and value_dim up to 576, any GPU, several launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/decode/ffd_call.h"

namespace attest {

inline constexpr int kFfdPlainMostDim = 576;  ///< of head_dim and of value_dim

FfdBlockBytes ffd_plain_block_bytes(const FfdCacheShape& shape);
/// Of cuda_ffd_plain_decode, for a cache of this shape.
std::size_t ffd_plain_scratch_bytes(const FfdCacheShape& shape);

/// Fills the cache from k [batch, Hkv, stride, D] and v [batch, Hkv, stride, Dv]. view.lengths is set already.
void cuda_ffd_plain_build(const FfdCacheShape& shape, const FfdCacheView& view, const void* k, const void* v,
                          std::int64_t stride, cudaStream_t stream);

/// Puts one token of every sequence, k [batch, Hkv, D] and v [batch, Hkv, Dv], at position view.lengths[sequence], and
/// quantises the block that it fills. The caller increments the lengths afterwards. A sequence of max_tokens tokens
/// stays as it is.
void cuda_ffd_plain_append(const FfdCacheShape& shape, const FfdCacheView& view, const void* k, const void* v,
                           cudaStream_t stream);

/// cuda_ffd_decode() of a plain cache. `scratch` holds ffd_plain_scratch_bytes(), aligned to 256. call.kept may be
/// null. pseudo_max = exact looks at one sink block and one local block, or at none where their number is 0.
void cuda_ffd_plain_decode(const FfdCacheShape& shape, const FfdCacheView& view, std::byte* scratch,
                           const FfdDecodeOptions& options, const FfdDecodeCall& call, cudaStream_t stream);

/// cuda_ffd_scan() of a plain cache. Nothing is written for blocks that a sequence does not fill.
void cuda_ffd_plain_scan(const FfdCacheShape& shape, const FfdCacheView& view, const FfdDecodeOptions& options,
                         const FfdScanCall& call, cudaStream_t stream);

}  // namespace attest
