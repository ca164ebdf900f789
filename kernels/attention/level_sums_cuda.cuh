// Device helpers for sums per entry level: iteration over the tokens of a row, and order-independent additions.
#pragma once

#include <cstdint>

#include "kernels/base/level.h"

namespace attest {

/// Calls token(score, level) for the thread's tokens of a row, and after_octet() after each eight. The eight tokens
/// are consecutive; the thread's next eight start blockDim.x * 8 tokens later. Rows are aligned to 16 bytes and padded
/// to eight tokens. If `levels` is null, all levels are 0.
template <class Token, class EndOfEight>
__device__ void for_token_octets(const float* scores, const Level* levels, int length, Token&& token,
                                 EndOfEight&& after_octet) {
  for (int j = static_cast<int>(threadIdx.x) * 8; j < length; j += static_cast<int>(blockDim.x) * 8) {
    const float4 low = *reinterpret_cast<const float4*>(scores + j),
                 high = *reinterpret_cast<const float4*>(scores + j + 4);
    uint4 packed{0, 0, 0, 0};
    if (levels != nullptr) packed = *reinterpret_cast<const uint4*>(levels + j);
    const float score[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    const std::uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
    if (j + 8 <= length) {
#pragma unroll
      for (int i = 0; i < 8; ++i) token(score[i], static_cast<int>(words[i / 2] >> (i % 2 * 16) & 0xFFFFu));
    } else {
#pragma unroll 1
      for (int i = 0; i < length - j; ++i)
        token(scores[j + i], levels == nullptr ? 0 : static_cast<int>(levels[j + i]));
    }
    after_octet();
  }
}

/// for_token_octets() without the callback after each eight.
template <class Token>
__device__ void for_tokens(const float* scores, const Level* levels, int length, Token&& token) {
  for_token_octets(scores, levels, length, token, [] {});
}

/// Calls add(level, takes_part) on all lanes, once for every distinct level in the warp; takes_part is true on the
/// lanes that have this level. So each level is reduced over the warp before its atomic addition. (Otherwise thousands
/// of atomics to one address would serialise at the end of a row.)
template <class Add>
__device__ void for_levels_of_warp(int level, Add&& add) {
  unsigned left = 0xFFFFFFFFu;
  while (left != 0) {
    const int here = __shfl_sync(0xFFFFFFFFu, level, __ffs(static_cast<int>(left)) - 1);
    add(here, level == here);
    left &= ~__ballot_sync(0xFFFFFFFFu, level == here);
  }
}

/// *sum += x in shared memory, as two 32-bit atomics. (Shared memory has no native 64-bit atomic addition; the compiler
/// would emit a compare-and-swap loop.)
__device__ inline void add_atomically(unsigned long long* sum, unsigned long long x) {
  auto* words = reinterpret_cast<std::uint32_t*>(sum);
  const auto low = static_cast<std::uint32_t>(x);
  const std::uint32_t before = atomicAdd(words, low);
  const std::uint32_t high = static_cast<std::uint32_t>(x >> 32) + (before + low < before ? 1u : 0u);
  if (high != 0) atomicAdd(words + 1, high);
}

/// A sum of numbers in [0, 1] in fixed point: integer additions give the same sum in any order. There is room for
/// 2^(63 - kBits) ones.
template <int kBits>
struct FixedPoint {
  static __device__ unsigned long long from(double x) {
    return __double2ull_rn(x * static_cast<double>(1ull << kBits));
  }
  static __device__ double to(unsigned long long x) {
    return static_cast<double>(x) / static_cast<double>(1ull << kBits);
  }
};

}  // namespace attest
