// Eight neighbouring channels at a time: how every kernel reads keys and values, whatever their element type.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "dumps/element_type.h"

namespace attest {

inline constexpr int kOctet = 8;

/// x[0 .. 8) = elements [index, index + 8) of `base`, exactly; channels from `valid` on are 0. Reads 16 bytes at once where all
/// eight are valid and rows of `pitch` elements keep them aligned.
__device__ inline void load_octet(ElementType type, const void* base, std::int64_t index, int valid, int pitch, float (&x)[kOctet]) {
  if (valid >= kOctet && pitch % kOctet == 0) {
    if (type == ElementType::float32) {
      const float4* p = reinterpret_cast<const float4*>(static_cast<const float*>(base) + index);
      const float4 low = __ldg(p), high = __ldg(p + 1);
      x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
      x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
      return;
    }
    const uint4 raw = __ldg(reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(base) + index));
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (type == ElementType::bfloat16) {
        x[2 * i] = __uint_as_float(words[i] << 16);
        x[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
      } else {
        const float2 pair = __half22float2(reinterpret_cast<const __half2&>(words[i]));
        x[2 * i] = pair.x;
        x[2 * i + 1] = pair.y;
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    x[i] = 0;
    if (i >= valid) continue;
    switch (type) {
      case ElementType::float32: x[i] = static_cast<const float*>(base)[index + i]; break;
      case ElementType::bfloat16: x[i] = __uint_as_float(std::uint32_t{static_cast<const std::uint16_t*>(base)[index + i]} << 16); break;
      case ElementType::float16: x[i] = __half2float(static_cast<const __half*>(base)[index + i]); break;
    }
  }
}

/// Eight floats from 32-byte aligned memory.
__device__ inline void load_floats(const float* p, float (&x)[kOctet]) {
  const float4 low = __ldg(reinterpret_cast<const float4*>(p)), high = __ldg(reinterpret_cast<const float4*>(p) + 1);
  x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
  x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
}

/// Takes the leading bfloat16 part off each x and packs the parts. A float32 is the exact sum of its first three parts, a
/// float16 of two, a bfloat16 of one: products of parts on tensor cores lose nothing.
__device__ inline uint4 take_parts(float (&x)[kOctet]) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
    x[2 * i] -= __low2float(pair);
    x[2 * i + 1] -= __high2float(pair);
    words[i] = reinterpret_cast<const std::uint32_t&>(pair);
  }
  return {words[0], words[1], words[2], words[3]};
}

/// bfloat16 parts that make up a value of the type.
__host__ __device__ constexpr int parts_of(ElementType type) {
  return type == ElementType::bfloat16 ? 1 : type == ElementType::float16 ? 2 : 3;
}

}  // namespace attest
