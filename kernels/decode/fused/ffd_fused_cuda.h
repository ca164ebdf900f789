// Launches of the fused decode and of the kernels that fill its cache (FfdCacheLayout::fragments).
#pragma once

#include <algorithm>

#include "kernels/decode/base/ffd_deal.h"
#include "kernels/decode/fused/ffd_fused_params.h"
#include "kernels/device/multiprocessor.h"

namespace attest {

/// The current device runs the kernels of FfdCacheLayout::fragments: it is of compute capability 9.0 or later, and the
/// build has code for it.
bool has_ffd_fused_kernels();

/// Thread blocks of a launch, each of which fills a multiprocessor of the current device.
inline int ffd_fused_ctas() { return std::min(num_multiprocessors(), kFfdMaxCtas); }

FfdBlockBytes ffd_fragments_block_bytes(const FfdCacheShape& shape);

/// `p` without scratch pointers: bytes of scratch memory that its launches need. With `scratch`, fills them in.
std::size_t ffd_fused_scratch(const FfdCacheShape& shape, std::byte* scratch, FfdFusedParams& p);

/// Bytes at the start of the scratch memory that must be zero before the first launch.
std::size_t ffd_fused_zeroed_bytes(const FfdCacheShape& shape);

void cuda_ffd_fragments_build(const FfdCacheShape& shape, const FfdCacheView& cache, const void* k, const void* v,
                              std::int64_t stride, cudaStream_t stream);
/// Does not advance the lengths.
void cuda_ffd_fragments_append(const FfdCacheShape& shape, const FfdCacheView& cache, const void* k, const void* v,
                               cudaStream_t stream);
/// `deal`, which may be null, is followed where the kernel of one length can.
void cuda_ffd_fused_decode(const FfdCacheShape& shape, const FfdCacheView& cache, std::byte* scratch,
                           const FfdDecodeOptions& options, const FfdDecodeCall& call, const FfdDeal* deal,
                           cudaStream_t stream);
void cuda_ffd_fused_scan(const FfdCacheShape& shape, const FfdCacheView& cache, std::byte* scratch,
                         const FfdDecodeOptions& options, const FfdScanCall& call, cudaStream_t stream);

}  // namespace attest
