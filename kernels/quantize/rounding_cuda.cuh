// Rounding steps of the quantisers on the device: the same float32 steps as rounding.h, each rounded separately.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "dumps/element_type.h"

namespace attest {

/// Clamps to [lowest, highest] and rounds half to even.
__device__ inline float rounded_code(float position, float lowest, float highest) {
  return rintf(fminf(fmaxf(position, lowest), highest));
}

/// a / b rounded to nearest, for b in [2^-80, 2^80] and |a| in [2^-100, 2^100]. These are the steps of __fdiv_rn
/// without its branch for other operands; that branch keeps the compiler from overlapping neighbouring divisions. For
/// smaller |a| the quotient is below 2^-20 and may be off by one ulp, which cannot change a rounded code.
__device__ inline float fast_quotient(float a, float b) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  inverse = __fmaf_rn(__fmaf_rn(-b, inverse, 1.0f), inverse, inverse);
  float quotient = __fmul_rn(a, inverse);
  quotient = __fmaf_rn(__fmaf_rn(-b, quotient, a), inverse, quotient);
  return __fmaf_rn(__fmaf_rn(-b, quotient, a), inverse, quotient);
}
__device__ inline bool in_fast_range(float b) { return b >= 0x1p-70f && b <= 0x1p70f; }  // then b / 254 does too
template <int kCount>
__device__ bool all_in_fast_range(const float (&b)[kCount]) {
  bool all = true;
#pragma unroll
  for (int i = 0; i < kCount; ++i) all = all && in_fast_range(b[i]);
  return all;
}

/// a / b, by fast_quotient() where the caller has checked in_fast_range(b), else by __fdiv_rn.
template <bool kPlain>
__device__ float quotient(float a, float b) {
  if constexpr (kPlain) return fast_quotient(a, b);
  return __fdiv_rn(a, b);
}

/// r() of `quant_arith = dump`: rounds to the dump's element type and back, saturating.
__device__ inline float rounded_to(ElementType type, float x) {
  if (type == ElementType::float32) return x;
  if (type == ElementType::bfloat16) return __bfloat162float(__float2bfloat16_rn(x));
  return __half2float(__float2half_rn(fminf(fmaxf(x, -65504.0f), 65504.0f)));
}

/// Rounds to float8 e4m3fn and back, half to even, saturating at 448.
__device__ inline float rounded_to_e4m3(float x) {
  const __nv_fp8_storage_t code = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
}

/// Rounds to float8 e5m2 and back, half to even, saturating at 57344.
__device__ inline float rounded_to_e5m2(float x) {
  const __nv_fp8_storage_t code = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E5M2)));
}

/// Rounds to float4 e2m1 (0, 0.5, 1, 1.5, 2, 3, 4, 6) and back, half to even, saturating at 6: the steps of
/// round_to_small_float<1, 0>(), for processors that have no such conversion.
__device__ inline float rounded_to_e2m1(float x) {
  constexpr std::uint32_t kDropped = (1u << 22) - 1;  // all but one bit of the mantissa
  constexpr float kHalves = 6291456.0f;               // 1.5 * 2^22, whose ulp is 0.5
  const std::uint32_t bits = __float_as_uint(x), magnitude = bits & 0x7FFFFFFFu;
  const float absolute = __uint_as_float(magnitude);
  float rounded = __uint_as_float((magnitude + (kDropped >> 1) + (magnitude >> 22 & 1u)) & ~kDropped);
  rounded = rounded < 6.0f ? rounded : 6.0f;
  if (absolute < 1.0f) rounded = __fsub_rn(__fadd_rn(absolute, kHalves), kHalves);
  return __uint_as_float(__float_as_uint(rounded) | (bits & 0x80000000u));
}

}  // namespace attest
