// Loads of eight neighbouring channels (an octet) of keys or values of any element type, used by all kernels.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "dumps/element_type.h"

namespace attest {

inline constexpr int kOctet = 8;

/// One element as float32.
__device__ inline float load_element(ElementType type, const void* base, std::int64_t index) {
  if (type == ElementType::bfloat16)
    return __uint_as_float(std::uint32_t{static_cast<const std::uint16_t*>(base)[index]} << 16);
  if (type == ElementType::float16) return __half2float(static_cast<const __half*>(base)[index]);
  return static_cast<const float*>(base)[index];
}

/// Eight floats, passed by value.
struct Octet {
  float x[kOctet];
};

/// Eight elements, not yet converted. kWide: float32; otherwise a 16-bit type.
template <bool kWide>
struct RawOctet {
  uint4 words[kWide ? 2 : 1];
};

/// Loads an octet one element at a time. Not inlined: it would make up most of a kernel's code.
template <bool kWide>
__device__ __noinline__ RawOctet<kWide> load_elements(const void* base, std::int64_t index, int valid) {
  std::uint32_t words[kWide ? 8 : 4] = {};
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    if (i >= valid) continue;
    if constexpr (kWide)
      words[i] = static_cast<const std::uint32_t*>(base)[index + i];
    else
      words[i / 2] |= std::uint32_t{static_cast<const std::uint16_t*>(base)[index + i]} << (i % 2 * 16);
  }
  RawOctet<kWide> raw;
#pragma unroll
  for (int i = 0; i < (kWide ? 2 : 1); ++i)
    raw.words[i] = {words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
  return raw;
}

/// Elements [index, index + 8) of `base`; elements from `valid` on are 0. Reads 16 bytes at once if all eight are valid
/// and the row length `pitch` keeps octets aligned.
template <bool kWide>
__device__ RawOctet<kWide> load_raw(const void* base, std::int64_t index, int valid, int pitch) {
  if (valid > 0 && (valid < kOctet || pitch % kOctet != 0)) return load_elements<kWide>(base, index, valid);
  RawOctet<kWide> raw{};
  if (valid <= 0) return raw;
  const auto* p = reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(base) + index * (kWide ? 2 : 1));
#pragma unroll
  for (int i = 0; i < (kWide ? 2 : 1); ++i) raw.words[i] = __ldg(p + i);
  return raw;
}

__device__ inline void unpack(ElementType, const RawOctet<true>& raw, float (&x)[kOctet]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint4 words = raw.words[i];
    x[4 * i] = __uint_as_float(words.x), x[4 * i + 1] = __uint_as_float(words.y);
    x[4 * i + 2] = __uint_as_float(words.z), x[4 * i + 3] = __uint_as_float(words.w);
  }
}
__device__ inline void unpack(ElementType type, const RawOctet<false>& raw, float (&x)[kOctet]) {
  const std::uint32_t words[4] = {raw.words[0].x, raw.words[0].y, raw.words[0].z, raw.words[0].w};
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
}

/// The same elements, converted exactly to float.
__device__ inline void load_octet(ElementType type, const void* base, std::int64_t index, int valid, int pitch,
                                  float (&x)[kOctet]) {
  if (type == ElementType::float32)
    unpack(type, load_raw<true>(base, index, valid, pitch), x);
  else
    unpack(type, load_raw<false>(base, index, valid, pitch), x);
}

/// Index of an octet's first element, and how many of its channels exist.
struct OctetPlace {
  std::int64_t index;
  int valid;
};

/// Loads octets place(0) .. place(kCount - 1). All loads are issued before the first octet is unpacked.
template <bool kWide, int kCount, class Place>
__device__ void load_octets(ElementType type, const void* base, int pitch, Place&& place, float (&x)[kCount][kOctet]) {
  RawOctet<kWide> raw[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const OctetPlace at = place(i);
    raw[i] = load_raw<kWide>(base, at.index, at.valid, pitch);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) unpack(type, raw[i], x[i]);
}
template <int kCount, class Place>
__device__ void load_octets(ElementType type, const void* base, int pitch, Place&& place, float (&x)[kCount][kOctet]) {
  if (type == ElementType::float32)
    load_octets<true>(type, base, pitch, place, x);
  else
    load_octets<false>(type, base, pitch, place, x);
}

/// Eight floats from 32-byte aligned memory.
__device__ inline void load_floats(const float* p, float (&x)[kOctet]) {
  const float4 low = __ldg(reinterpret_cast<const float4*>(p)), high = __ldg(reinterpret_cast<const float4*>(p) + 1);
  x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
  x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
}

/// Subtracts from each x its leading bfloat16 part and returns the packed parts. A float32 is the exact sum of its
/// first three parts, a float16 of two, a bfloat16 of one. Products of two parts are exact on tensor cores.
__device__ inline uint4 split_leading_bf16(float (&x)[kOctet]) {
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

/// Number of bfloat16 parts whose sum is exactly a value of the type.
__host__ __device__ constexpr int parts_of(ElementType type) {
  return type == ElementType::bfloat16 ? 1 : type == ElementType::float16 ? 2 : 3;
}

}  // namespace attest
