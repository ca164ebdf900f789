// What the L2 cache is told about data: read once, soon read again, wanted soon, no longer wanted. Compute
// capability 8.0 or later.
#pragma once

#include <cstdint>

namespace attest {

/// Of data that is read once: it makes room before anything else does, so that instructions, queries and partial
/// results stay.
__device__ inline std::uint64_t read_once_policy() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
/// Of data that is read again soon: it stays while anything else can make room. Whoever reads it last says so by
/// read_once_policy() or discard_line().
__device__ inline std::uint64_t read_again_policy() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ inline void store_with_policy(float* to, float x, std::uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(to), "f"(x), "l"(policy) : "memory");
}
/// Of data that no thread block of this launch changes after the caller has met its writer.
__device__ inline float load_with_policy(const float* p, std::uint64_t policy) {
  float x;
  asm volatile("ld.global.cg.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(x) : "l"(p), "l"(policy) : "memory");
  return x;
}

inline constexpr int kCacheLine = 128;  ///< bytes

/// Brings the line into the L2 cache.
__device__ inline void prefetch_line(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
/// The same of all lines of `bytes` from p on. A whole warp.
__device__ inline void prefetch_lines(const std::uint8_t* p, int bytes, int lane) {
#pragma unroll
  for (int at = lane * kCacheLine; at < bytes; at += 32 * kCacheLine) prefetch_line(p + at);
}
/// The 128 bytes at p, a multiple of 128, have any values from now on: the cache need not write them to device memory.
__device__ inline void discard_line(const void* p) { asm volatile("discard.global.L2 [%0], 128;" ::"l"(p) : "memory"); }

}  // namespace attest
