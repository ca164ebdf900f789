// The quantisers' roundings on the device: the same float32 steps as rounding.h, each operation rounded by itself.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "dumps/element_type.h"

namespace attest {

/// Half to even.
__device__ inline float rounded_code(float position, float lowest, float highest) {
  return rintf(fminf(fmaxf(position, lowest), highest));
}

/// r() of `quant_arith = dump`: to the dump's element type and back, saturating.
__device__ inline float rounded_to(ElementType type, float x) {
  if (type == ElementType::float32) return x;
  if (type == ElementType::bfloat16) return __bfloat162float(__float2bfloat16_rn(x));
  return __half2float(__float2half_rn(fminf(fmaxf(x, -65504.0f), 65504.0f)));
}

/// To float8 e4m3fn and back, half to even, saturating at 448.
__device__ inline float rounded_to_e4m3(float x) {
  const __nv_fp8_storage_t code = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
}

}  // namespace attest
