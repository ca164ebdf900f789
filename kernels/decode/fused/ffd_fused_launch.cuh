// Launches of the fused decode kernel for one element type; each type is compiled in files of its own.
#pragma once

#include "dumps/base/error.h"
#include "kernels/decode/fused/ffd_fused.cuh"
#include "kernels/decode/fused/ffd_fused_cuda.h"
#include "kernels/decode/fused/ffd_one_length.cuh"
#include "kernels/decode/fused/ffd_whole_pairs.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {

/// Full blocks and tails that a CTA has at most, at the longest lengths: a nineteenth more than its share
/// (deal_items()).
inline std::int64_t max_ffd_items(const FfdFusedParams& p) {
  const std::int64_t share = p.pairs() * (p.max_blocks + 1) / ffd_fused_ctas() + 1;
  return share + share / 19 + 1;
}

/// Kept tiles are dealt anew.
inline bool is_balanced(const FfdFusedParams& p) { return max_ffd_items(p) > p.max_static_items; }

/// The launch may begin while the one before ends: its kernel calls wait_for_launch_before().
inline cudaLaunchAttribute begins_early() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

/// `meets`: the kernel may call grid_barrier().
template <int D, int kGroups, int kBits, class... Args>
void launch_ffd_kernel(void (*kernel)(Args...), bool meets, cudaStream_t stream, const Args&... args) {
  constexpr std::size_t kBytes = sizeof(FfdFusedShared<D, kGroups, kBits>);
  static_assert(kBytes <= 227 * 1024);
  allow_shared_memory(kernel, kBytes);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ffd_fused_ctas()));
  config.blockDim = dim3(kFfdThreads);
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  cudaLaunchAttribute attribute = begins_early();
  if (meets) {  // grid_barrier() needs all CTAs to be resident
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  }
  config.attrs = &attribute;
  config.numAttrs = 1;
  ATTEST_CUDA(cudaLaunchKernelEx(&config, kernel, args...));
}

template <class T, int D, int kGroups, int kBits, bool kLate, bool kStatic>
void launch_ffd_kernel(const FfdFusedParams& p, cudaStream_t stream) {
  const bool meets = !kStatic && p.phases == kFfdAllPhases && (kLate || is_balanced(p));
  launch_ffd_kernel<D, kGroups, kBits>(ffd_fused_kernel<T, D, kGroups, kBits, kLate, kStatic>, meets, stream, p);
}

/// Calls launch(integral constants D and groups of four heads) for a shape with thumbnails of 2 bits and up to 8 heads
/// per KV head: those that a decode meets, for which kernels are compiled that do one thing alone.
template <class Launch>
auto with_common_ffd_shape(const FfdCacheShape& s, Launch&& launch) {
  const auto of_group = [&](auto head_dim) {
    return s.group <= 4 ? launch(head_dim, std::integral_constant<int, 1>())
                        : launch(head_dim, std::integral_constant<int, 2>());
  };
  return s.head_dim == 64 ? of_group(std::integral_constant<int, 64>()) : of_group(std::integral_constant<int, 128>());
}
inline bool is_common_ffd_shape(const FfdCacheShape& s) { return s.bits == 2 && s.group <= 8; }

/// The kernel for a shape that fits_fragments() allows.
template <class T, bool kLate>
void launch_ffd_kernel(const FfdCacheShape& s, const FfdFusedParams& p, cudaStream_t stream) {
  if (s.head_dim == 64) {
    if (s.group <= 4) return launch_ffd_kernel<T, 64, 1, 2, kLate, false>(p, stream);
    if (s.group <= 8) return launch_ffd_kernel<T, 64, 2, 2, kLate, false>(p, stream);
    return launch_ffd_kernel<T, 64, 4, 2, kLate, false>(p, stream);
  }
  if (s.bits == 4) return launch_ffd_kernel<T, 128, 1, 4, kLate, false>(p, stream);
  if (s.bits == 8) return launch_ffd_kernel<T, 128, 1, 8, kLate, false>(p, stream);
  if (s.group <= 4) return launch_ffd_kernel<T, 128, 1, 2, kLate, false>(p, stream);
  if (s.group <= 8) return launch_ffd_kernel<T, 128, 2, 2, kLate, false>(p, stream);
  return launch_ffd_kernel<T, 128, 4, 2, kLate, false>(p, stream);
}

/// The static kernel for a common shape.
template <class T>
void launch_ffd_static_kernel(const FfdCacheShape& s, const FfdFusedParams& p, cudaStream_t stream) {
  with_common_ffd_shape(
      s, [&](auto head_dim, auto groups) { launch_ffd_kernel<T, head_dim(), groups(), 2, false, true>(p, stream); });
}

/// The kernel of one length, or that of whole pairs where a CTA has some, for a common shape. No deal: kept tiles are
/// dealt anew.
template <class T>
void launch_ffd_one_length_kernel(const FfdCacheShape& s, const FfdFusedParams& p, const FfdDeal& deal,
                                  cudaStream_t stream) {
  with_common_ffd_shape(s, [&](auto head_dim, auto groups) {
    if (p.pairs_per_cta > 0)
      return launch_ffd_kernel<head_dim(), groups(), 2>(ffd_whole_pairs_kernel<T, head_dim(), groups(), 2>, true,
                                                        stream, p);
    const bool balanced = deal.ctas == 0;
    launch_ffd_kernel<head_dim(), groups(), 2>(balanced ? ffd_one_length_kernel<T, head_dim(), groups(), 2, true>
                                                        : ffd_one_length_kernel<T, head_dim(), groups(), 2, false>,
                                               balanced, stream, p, deal);
  });
}

/// One per element type, and for decisions block by block or late; the static kernel and that of one length for common
/// shapes alone.
using FfdLaunch = void(const FfdCacheShape&, const FfdFusedParams&, cudaStream_t);
FfdLaunch launch_ffd_float16, launch_ffd_bfloat16, launch_ffd_late_float16, launch_ffd_late_bfloat16;
FfdLaunch launch_ffd_static_float16, launch_ffd_static_bfloat16;
using FfdOneLengthLaunch = void(const FfdCacheShape&, const FfdFusedParams&, const FfdDeal&, cudaStream_t);
FfdOneLengthLaunch launch_ffd_one_length_float16, launch_ffd_one_length_bfloat16;

/// The clustered kernel for a common shape; false, without a launch, where the device does not hold a cluster for each
/// pair at a time, or the sequences are too long for it.
using FfdClusteredLaunch = bool(const FfdCacheShape&, const FfdFusedParams&, cudaStream_t);
FfdClusteredLaunch launch_ffd_clustered_float16, launch_ffd_clustered_bfloat16;

}  // namespace attest
