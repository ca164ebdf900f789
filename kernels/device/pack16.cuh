// Pairs of 16-bit elements in a word.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace attest {

/// Two numbers rounded to T, __half or __nv_bfloat16; the first is in the low bits.
template <class T>
__device__ std::uint32_t packed(float first, float second) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<const std::uint32_t&>(pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<const std::uint32_t&>(pair);
  }
}

}  // namespace attest
