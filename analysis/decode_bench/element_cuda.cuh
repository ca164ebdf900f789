// The two 16-bit element types in kernels of the bench.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <utility>

#include "dumps/element_type.h"

namespace attest {

__device__ inline float as_float(__half x) { return __half2float(x); }
__device__ inline float as_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ T rounded_to(float x);
template <>
__device__ inline __half rounded_to<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 rounded_to<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// Calls `action` with a value of the element's type: float16 or bfloat16.
template <class Action>
void with_element(ElementType type, Action&& action) {
  if (type == ElementType::float16)
    action(__half{});
  else
    action(__nv_bfloat16{});
}

}  // namespace attest
