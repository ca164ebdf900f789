// Launches of the fused decode kernel for one element type; each type is compiled in a file of its own.
#pragma once

#include "dumps/base/error.h"
#include "kernels/decode/fused/ffd_fused.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {

template <class T, int D, int kGroups, int kBits, bool kLate>
void launch_ffd_kernel(FfdFusedParams p, cudaStream_t stream) {
  const int ctas = std::min(num_multiprocessors(), kFfdMaxCtas);
  p.ctas_per_pair = static_cast<int>(ctas / p.pairs());
  const auto kernel = ffd_fused_kernel<T, D, kGroups, kBits, kLate>;
  constexpr std::size_t kBytes = sizeof(FfdFusedShared<D, kGroups, kBits>);
  static_assert(kBytes <= 227 * 1024);
  allow_shared_memory(kernel, kBytes);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(kFfdThreads);
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;  // grid_barrier() needs all CTAs to be resident
  attribute.val.cooperative = 1;
  config.attrs = &attribute;
  // A CTA has at most a nineteenth more than its share (deal_items()).
  const std::int64_t share = p.pairs() * (p.max_blocks + 1) / ctas + 1, most_items = share + share / 19 + 1;
  config.numAttrs = p.phases == kFfdAllPhases && (kLate || most_items > p.max_static_items) ? 1 : 0;
  ATTEST_CUDA(cudaLaunchKernelEx(&config, kernel, p));
}

/// The kernel for a shape that fits_fragments() allows.
template <class T, bool kLate>
void launch_ffd_kernel(const FfdCacheShape& s, const FfdFusedParams& p, cudaStream_t stream) {
  if (s.head_dim == 64) {
    if (s.group <= 4) return launch_ffd_kernel<T, 64, 1, 2, kLate>(p, stream);
    if (s.group <= 8) return launch_ffd_kernel<T, 64, 2, 2, kLate>(p, stream);
    return launch_ffd_kernel<T, 64, 4, 2, kLate>(p, stream);
  }
  if (s.bits == 4) return launch_ffd_kernel<T, 128, 1, 4, kLate>(p, stream);
  if (s.bits == 8) return launch_ffd_kernel<T, 128, 1, 8, kLate>(p, stream);
  if (s.group <= 4) return launch_ffd_kernel<T, 128, 1, 2, kLate>(p, stream);
  if (s.group <= 8) return launch_ffd_kernel<T, 128, 2, 2, kLate>(p, stream);
  return launch_ffd_kernel<T, 128, 4, 2, kLate>(p, stream);
}

/// One per element type, and for decisions block by block or late.
using FfdLaunch = void(const FfdCacheShape&, const FfdFusedParams&, cudaStream_t);
FfdLaunch launch_ffd_float16, launch_ffd_bfloat16, launch_ffd_late_float16, launch_ffd_late_bfloat16;

}  // namespace attest
