// How FFD's cache lies in memory for tensor cores (FfdCacheLayout::fragments): each lane of a warp finds its part of an
// operand of mma.m16n8k16 in consecutive bytes. Tokens are the rows of the scores' product, channels those of the
// output's.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/decode/base/ffd_call.h"

namespace attest {

inline constexpr int kFfdTile = 16;                     ///< tokens of a product
inline constexpr int kFfdTiles = kFfdBlock / kFfdTile;  ///< of a block

/// Place of an element of a 16 x 16 operand A: row r, column k (both below 16).
struct FragmentPlace {
  int lane, reg, half;
  __host__ __device__ FragmentPlace(int r, int k)
      : lane((r % 8) * 4 + (k % 8) / 2), reg(r / 8 + 2 * (k / 8)), half(k % 2) {}
};

/// D: channels of keys and of values, 64 or 128. Steps are groups of 16 channels.
///
/// A record holds a block's thumbnails: a header of 16 bytes (float32 unit u, a power of two), D float16 channel maxima
/// in units of u, and the codes. The scan multiplies by q, so the maxima stay exact: u makes the largest fall into (64,
/// 128]. Codes of several steps share a 16-bit half of a word, the lowest step in the lowest bits: `word & mask` leaves
/// the code of one step as a subnormal float16, code * 2^-24 * 2^shift, without a conversion.
template <int D, int kBits>
struct FfdFragments {
  static_assert((D == 64 || D == 128) && (kBits == 2 || kBits == 4 || kBits == 8));
  static constexpr int kSteps = D / 16;
  static constexpr int kStepsPerWord = 16 / kBits < kSteps ? 16 / kBits : kSteps;
  static constexpr int kWordGroups = kSteps / kStepsPerWord;  ///< words per register of the operand
  /// A register's codes take half of a word's halves (D = 64, 2 bits): the other half holds those of the rows 8 below.
  static constexpr bool kSharesWord = kStepsPerWord * kBits == 8;
  static constexpr int kWords = kSharesWord ? 2 : 4 * kWordGroups;  ///< per lane and tile
  static constexpr int kHeader = 16;
  static constexpr int kScaleBytes = 2 * D;
  static constexpr int kTileCodes = 32 * kWords * 4;  ///< bytes
  static constexpr int kRecord = kHeader + kScaleBytes + kFfdTiles * kTileCodes;
  static constexpr int kResidualTile = kFfdTile * D;   ///< bytes
  static constexpr int kValueTile = kFfdTile * D * 2;  ///< bytes
  /// Bits by which the code of step i is shifted within its half, after the right shift that drop_bits() tells.
  __host__ __device__ static constexpr int shift(int i) { return i % kStepsPerWord * kBits - drop_bits(i); }
  /// The mantissa of a float16 has 10 bits: codes above them are shifted down first.
  __host__ __device__ static constexpr int drop_bits(int i) {
    const int at = i % kStepsPerWord * kBits;
    return kBits == 8 ? at : kBits == 4 ? at / 8 * 8 : at / 10 * 10;
  }

  /// Byte of channel c's maximum within the record: each lane reads those of two steps at once.
  __host__ __device__ static int scale_at(int c) {
    const int step = c / 16, k = c % 16;
    return kHeader + (((step / 2) * 4 + (k % 8) / 2) * 8 + (step % 2) * 4 + k / 8 * 2 + k % 2) * 2;
  }
  /// Word among the block's codes, and bit within it, of the code of (token, channel).
  __host__ __device__ static void code_at(int token, int c, int& word, int& bit) {
    const FragmentPlace at(token % 16, c % 16);
    const int tile = token / 16, step = c / 16;
    bit = 16 * at.half + step % kStepsPerWord * kBits;
    if constexpr (kSharesWord) {
      word = (tile * 32 + at.lane) * kWords + at.reg / 2;
      bit += 8 * (at.reg % 2);
    } else {
      word = ((tile * kWordGroups + step / kStepsPerWord) * 32 + at.lane) * 4 + at.reg;
    }
  }
  /// Byte among the block's residuals: 16 bytes of a lane hold two steps.
  __host__ __device__ static int residual_at(int token, int c) {
    const FragmentPlace at(token % 16, c % 16);
    const int step = c / 16;
    return token / 16 * kResidualTile + ((step / 2) * 32 + at.lane) * 16 + step % 2 * 8 + at.reg * 2 + at.half;
  }
  /// Element among a block's 16-bit keys.
  __host__ __device__ static int key_at(int token, int c) {
    const FragmentPlace at(token % 16, c % 16);
    return token / 16 * kFfdTile * D + ((c / 16 * 32 + at.lane) * 4 + at.reg) * 2 + at.half;
  }
  /// Element among a block's values, whose channels are rows.
  __host__ __device__ static int value_at(int token, int c) {
    const FragmentPlace at(c % 16, token % 16);
    return token / 16 * kFfdTile * D + ((c / 16 * 32 + at.lane) * 4 + at.reg) * 2 + at.half;
  }
};

}  // namespace attest
