// Queries of a KV head as operands of tensor cores: for the scan in two float16 parts, for the refinement in one.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "kernels/decode/fused/ffd_fragments.cuh"
#include "kernels/device/pack16.cuh"

namespace attest {

__device__ inline std::uint32_t bits_of(__half2 x) { return *reinterpret_cast<std::uint32_t*>(&x); }
__device__ inline __half2 half2_of(std::uint32_t x) { return *reinterpret_cast<__half2*>(&x); }

template <class T>
__device__ float2 float_pair(const T* p) {
  if constexpr (std::is_same_v<T, __half>)
    return __half22float2(*reinterpret_cast<const __half2*>(p));
  else
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(p));
}
/// e with 2^e > x >= 2^(e-1) for a float x that is not too small or large to be scaled by such powers; 0 for x = 0.
__device__ inline int exponent_above(float x) {
  return x == 0 ? 0 : min(max(((__float_as_int(x) >> 23) & 255) - 126, -90), 90);
}
__device__ inline float power_of_two(int e) { return __int_as_float((e + 127) << 23); }

/// x * unit in two float16 parts.
__device__ inline void split(float2 x, float unit, std::uint32_t& high, std::uint32_t& low) {
  x.x *= unit, x.y *= unit;
  const __half2 h = __floats2half2_rn(x.x, x.y);
  high = bits_of(h);
  low = bits_of(__floats2half2_rn(x.x - __low2float(h), x.y - __high2float(h)));
}

/// In shared memory. Lane l of an operand B holds column l / 4 and channels 2 (l % 4) + {0, 1, 8, 9} of each step.
/// The scan's columns are (head, part): q / z = (high + low) * unit. Those of the refinement are heads.

template <int D, int kGroups>
struct FfdQueryFragments {
  static constexpr int kSteps = D / 16;
  static constexpr int kHalves = (kGroups + 1) / 2;  ///< groups of 8 heads
  /// Of a column's high part 0, 0, high, high; of its low part high, high, low, low. Times 2^-shift of the step. The
  /// same products then make each part times a scale.
  uint4 scan[kGroups][kSteps][32];
  uint2 refine[kHalves][kSteps][32];     ///< float16, normalised
  uint2 exact[kHalves][kSteps][32];      ///< in the element type, for 16-bit keys
  float scan_unit[16], refine_unit[16];  ///< [head] factors of the products that make them scores
};

/// Makes fragments of q [group, D] in shared memory. All threads of the CTA. Ends with a barrier; the queries that are
/// replaced are no longer read.
template <class T, int D, int kGroups, int kBits>
__device__ void make_query_fragments(FfdQueryFragments<D, kGroups>& f, const T* q, int group, float scale, int warp,
                                     int lane) {
  using Layout = FfdFragments<D, kBits>;
  constexpr int kWarps = 16, kSteps = D / 16;
  constexpr int kScanTasks = kGroups * kSteps, kTasks = kScanTasks + (kGroups + 1) / 2 * kSteps;
  constexpr float kZ = ((1 << kBits) - 1) / 2.0f;
  const int g = lane / 4, t = lane % 4;
  // A warp's task is a step, of four heads for the scan or of eight for the refinement.
#pragma unroll 1
  for (int task = warp; task < kTasks; task += kWarps) {
    const bool scans = task < kScanTasks;
    const int of_kind = scans ? task : task - kScanTasks;
    const int step = of_kind % kSteps, columns = of_kind / kSteps;
    const int head = columns * (scans ? 4 : 8) + (scans ? g / 2 : g);
    float2 x = make_float2(0, 0), y = x;  // channels 2 t + {0, 1} and 2 t + {8, 9} of the step
    float maximum = 0;                    // largest magnitude of the head
    if (head < group) {
      const T* of_head = q + head * D;
      x = float_pair(of_head + 16 * step + 2 * t);
      y = float_pair(of_head + 16 * step + 2 * t + 8);
      using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
      std::uint32_t largest = 0;
#pragma unroll
      for (int i = 0; i < D / 32; ++i) {
        const uint4 eight = *reinterpret_cast<const uint4*>(of_head + 32 * i + 8 * t);
        const std::uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const Pair pair = __hmax2(__habs2(reinterpret_cast<const Pair&>(words[w])), reinterpret_cast<Pair&>(largest));
          largest = reinterpret_cast<const std::uint32_t&>(pair);
        }
      }
      const float2 two = float_pair(reinterpret_cast<const T*>(&largest));
      maximum = fmaxf(two.x, two.y);
    }
    maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 1));
    maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 2));
    const int e = exponent_above(maximum);
    if (scans) {
      // A subnormal code is code * 2^-24; queries are normalised to 2^7.
      if (step == 0 && lane % 8 == 0) f.scan_unit[4 * columns + lane / 8] = scale / kZ * power_of_two(24 + e - 7);
      const float unit = power_of_two(7 - e - Layout::shift(step));
      uint2 high, low;
      split(x, unit, high.x, low.x);
      split(y, unit, high.y, low.y);
      f.scan[columns][step][lane] =
          g % 2 == 0 ? make_uint4(0, 0, high.x, high.y) : make_uint4(high.x, high.y, low.x, low.y);
    } else {
      // Queries are normalised to 2^12.
      if (step == 0 && lane % 4 == 0) f.refine_unit[8 * columns + lane / 4] = scale * power_of_two(e - 12);
      const float unit = power_of_two(12 - e);
      f.exact[columns][step][lane] = make_uint2(packed<T>(x.x, x.y), packed<T>(y.x, y.y));
      f.refine[columns][step][lane] =
          make_uint2(packed<__half>(x.x * unit, x.y * unit), packed<__half>(y.x * unit, y.y * unit));
    }
  }
  __syncthreads();
}

}  // namespace attest
