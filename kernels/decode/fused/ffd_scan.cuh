// The scan of a block's thumbnails by one warp: s^ of 128 tokens for the query heads of a KV head.
//
// Tokens are the rows of A and (query head, part) the columns of B, so that 8 columns hold 4 heads in two float16
// parts. The channel's scale is multiplied into B once per block. A is the codes as they lie in memory, masked:
// subnormal float16 numbers, which tensor cores multiply exactly. The codebook's offset z is a product with a constant
// A, once per block.
#pragma once

#include "kernels/decode/fused/ffd_query.cuh"
#include "kernels/device/async_copy.cuh"
#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/tensor_core.cuh"

namespace attest {

/// A score from its sum of products (FfdScaledQuery::sums). factor > 0: the largest sum makes the largest score. The
/// product is rounded: fused with a comparison, a score could miss the pseudo-max that was made of it.
__device__ inline float score_of(float sum, float zero, float factor) { return __fmul_rn(sum + zero, factor); }

/// A block in a warp: lane l holds, of every tile, rows l / 4 and l / 4 + 8 for heads 4 * group + l % 4. Scores are
/// made when they are needed: of most blocks that is the largest of each tile alone.
template <int kGroups>
struct FfdBlockScores {
  float sum[kGroups][kFfdTiles][2];
  float zero[kGroups], factor[kGroups];

  __device__ float score(int columns, int m, int row) const {
    return score_of(sum[columns][m][row], zero[columns], factor[columns]);
  }
  __device__ float maximum(int columns, int m) const {
    return score_of(fmaxf(sum[columns][m][0], sum[columns][m][1]), zero[columns], factor[columns]);
  }
};

/// A block's record comes in pieces of about 4 KB: its header and scales with the first, then kPieceTiles tiles of
/// codes in each.
template <int D, int kBits>
struct FfdPieces {
  using Layout = FfdFragments<D, kBits>;
  static constexpr int kPieceTiles = kFfdTiles * 2 / kBits;
  static constexpr int kPieces = kFfdTiles / kPieceTiles;
  static constexpr int kHead = Layout::kHeader + Layout::kScaleBytes;
  static constexpr int kCodes = kPieceTiles * Layout::kTileCodes;
  static constexpr int kStage = kHead + kCodes;

  /// One thread.
  __device__ static void load(std::uint8_t* stage, const std::uint8_t* record, int piece, std::uint64_t* barrier,
                              std::uint64_t policy) {
    if (piece == 0) {
      expect_bytes(barrier, kStage);
      bulk_copy(stage, record, kStage, barrier, policy);
    } else {
      expect_bytes(barrier, kCodes);
      bulk_copy(stage + kHead, record + kHead + piece * kCodes, kCodes, barrier, policy);
    }
  }
};

/// Operands B of a group of four heads: queries times scales.
template <int D, int kBits>
struct FfdScaledQuery {
  using Layout = FfdFragments<D, kBits>;
  std::uint32_t b[Layout::kSteps][2];
  float zero;  ///< sum of -z times the columns of this lane's head

  __device__ void make(const std::uint8_t* record, const uint4 (&query)[Layout::kSteps][32], int lane) {
    const int t = lane % 4;
#pragma unroll
    for (int j = 0; j < Layout::kSteps / 2; ++j) {
      const uint4 packed_scales = *reinterpret_cast<const uint4*>(record + Layout::kHeader + (j * 4 + t) * 16);
      const std::uint32_t scales[4] = {packed_scales.x, packed_scales.y, packed_scales.z, packed_scales.w};
#pragma unroll
      for (int i = 2 * j; i < 2 * j + 2; ++i) {
        const uint4 q = query[i][lane];
        const std::uint32_t first[2] = {q.x, q.y}, second[2] = {q.z, q.w};
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const __half2 s = half2_of(scales[i % 2 * 2 + r]), product = __hmul2(s, half2_of(first[r]));
          const __half2 error = __hfma2(s, half2_of(first[r]), __hneg2(product));  // exact
          b[i][r] = bits_of(__hfma2(s, half2_of(second[r]), error));
        }
      }
    }
    float sum[2][4] = {};  // two sums, so that a product need not wait for the one before
#pragma unroll
    for (int i = 0; i < Layout::kSteps; ++i) {
      const std::uint32_t c = 0x80008000u | code_mask(i);  // minus the largest code, 2 z
      const std::uint32_t a[4] = {c, c, c, c};
      multiply_add<__half>(sum[i % 2], a, b[i][0], b[i][1]);
    }
    zero = 0.5f * (sum[0][0] + sum[0][1] + sum[1][0] + sum[1][1]);
  }

  __device__ static constexpr std::uint32_t code_mask(int i) {
    return ((1u << kBits) - 1) * 0x00010001u << Layout::shift(i);
  }

  /// Products of a tile's codes; `codes` is the tile's.
  __device__ void multiply(float (&sum)[4], const std::uint8_t* codes, int lane) const {
    sum[0] = sum[1] = sum[2] = sum[3] = 0;
    if constexpr (Layout::kSharesWord) {
      const uint2 w = *reinterpret_cast<const uint2*>(codes + lane * 8);
      const std::uint32_t word[4] = {w.x, w.x >> 8, w.y, w.y >> 8};
#pragma unroll
      for (int i = 0; i < Layout::kSteps; ++i) multiply_step(sum, word, i);
    } else {
#pragma unroll
      for (int group = 0; group < Layout::kWordGroups; ++group) {
        const uint4 w = *reinterpret_cast<const uint4*>(codes + (group * 32 + lane) * 16);
        std::uint32_t word[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int i = 0; i < Layout::kStepsPerWord; ++i) {
          const int step = group * Layout::kStepsPerWord + i;
          if (i > 0 && Layout::drop_bits(step) != Layout::drop_bits(step - 1)) {
#pragma unroll
            for (int r = 0; r < 4; ++r) word[r] >>= Layout::drop_bits(step) - Layout::drop_bits(step - 1);
          }
          multiply_step(sum, word, step);
        }
      }
    }
  }

  /// Sums of this lane's two rows, for the head of its column.
  __device__ float2 sums(const std::uint8_t* codes, int lane) const {
    float sum[4];
    multiply(sum, codes, lane);
    return make_float2(sum[0] + sum[1], sum[2] + sum[3]);
  }

 private:
  __device__ void multiply_step(float (&sum)[4], const std::uint32_t (&word)[4], int i) const {
    const std::uint32_t mask = code_mask(i);
    const std::uint32_t a[4] = {word[0] & mask, word[1] & mask, word[2] & mask, word[3] & mask};
    multiply_add<__half>(sum, a, b[i][0], b[i][1]);
  }
};

/// Scores of one piece. `scaled` is made from the first piece and kept for the others.
template <int D, int kGroups, int kBits>
__device__ void scan_piece(FfdBlockScores<kGroups>& scores, FfdScaledQuery<D, kBits>& scaled, const std::uint8_t* stage,
                           int piece, const FfdQueryFragments<D, kGroups>& query, int lane) {
  using Pieces = FfdPieces<D, kBits>;
  static_assert(Pieces::kPieces == 1 || kGroups == 1, "the scaled queries of one group are kept over pieces");
#pragma unroll
  for (int columns = 0; columns < kGroups; ++columns) {
    if (piece == 0) {
      scaled.make(stage, query.scan[columns], lane);
      scores.zero[columns] = scaled.zero;
      scores.factor[columns] = *reinterpret_cast<const float*>(stage) * query.scan_unit[4 * columns + lane % 4];
    }
#pragma unroll
    for (int m = 0; m < Pieces::kPieceTiles; ++m) {
      const float2 x = scaled.sums(stage + Pieces::kHead + m * Pieces::Layout::kTileCodes, lane);
      // A constant index keeps the sums in registers.
#pragma unroll
      for (int at = 0; at < Pieces::kPieces; ++at)
        if (at == piece)
          scores.sum[columns][at * Pieces::kPieceTiles + m][0] = x.x,
                                                         scores.sum[columns][at * Pieces::kPieceTiles + m][1] = x.y;
    }
  }
}

/// What the scan of half a piece alone needs of a record: its header and scales, then the tiles' codes.
template <int D, int kBits>
struct FfdHalfPiece {
  using Pieces = FfdPieces<D, kBits>;
  using Layout = FfdFragments<D, kBits>;
  static constexpr int kTiles = Pieces::kPieceTiles / 2, kPerBlock = kFfdTiles / kTiles;
  static constexpr int kHead = Pieces::kHead;
  static constexpr int kBytes = kHead + kTiles * Layout::kTileCodes;

  /// A whole warp, by copies of its threads: they do not wait behind the bulk copies of the SM. To be waited for by
  /// await_copies() and __syncwarp().
  __device__ static void load(std::uint8_t* to, const std::uint8_t* record, int half, int lane) {
    const std::uint8_t* codes = record + half * kTiles * Layout::kTileCodes;
#pragma unroll
    for (int at = 0; at < kBytes; at += 32 * 16) {
      const int i = at + 16 * lane;
      if (i < kBytes) copy_async(to + i, (i < kHead ? record : codes) + i, 16);
    }
    commit_copies();
  }

  /// Raises `maximum` to the largest scores: of this lane's rows and heads.
  template <int kGroups>
  __device__ static void raise(float (&maximum)[kGroups], const std::uint8_t* loaded,
                               const FfdQueryFragments<D, kGroups>& query, int lane) {
    const float unit = *reinterpret_cast<const float*>(loaded);
#pragma unroll
    for (int columns = 0; columns < kGroups; ++columns) {
      FfdScaledQuery<D, kBits> scaled;
      scaled.make(loaded, query.scan[columns], lane);
      float largest = -INFINITY;
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        const float2 x = scaled.sums(loaded + kHead + m * Layout::kTileCodes, lane);
        largest = fmaxf(largest, fmaxf(x.x, x.y));
      }
      const float factor = unit * query.scan_unit[4 * columns + lane % 4];
      maximum[columns] = fmaxf(maximum[columns], score_of(largest, scaled.zero, factor));
    }
  }
};

/// A bit per tile of the sub-blocks in which any head's score reaches its threshold.
template <int kGroups>
__device__ unsigned kept_tiles(const FfdBlockScores<kGroups>& scores, const float (&threshold)[kGroups],
                               int sub_tiles) {
  unsigned below = ~0u;
#pragma unroll
  for (int columns = 0; columns < kGroups; ++columns) {
    unsigned signs = 0;  // of what is missing: fewer instructions than comparisons, whose results are predicates
#pragma unroll
    for (int m = kFfdTiles - 1; m >= 0; --m)
      signs = __funnelshift_l(__float_as_uint(scores.maximum(columns, m) - threshold[columns]), signs, 1);
    below &= signs;
  }
  unsigned reached = __reduce_or_sync(~0u, ~below & 0xffu);
  if (sub_tiles == 8) return reached ? 0xffu : 0u;
  if (sub_tiles >= 2) reached = (reached | reached >> 1) & 0x55u;
  if (sub_tiles >= 4) reached = (reached | reached >> 2) & 0x11u;
  return reached * ((1u << sub_tiles) - 1);
}

/// Stores the maxima of the block's sub-blocks: head_maxima [sub-blocks, group] and maxima [sub-blocks] over heads,
/// those of the block; either may be null.
template <int kGroups>
__device__ void store_maxima(float* head_maxima, float* maxima, const FfdBlockScores<kGroups>& scores, int sub_tiles,
                             int group, int lane) {
  float over_heads[kFfdTiles];
#pragma unroll
  for (int m = 0; m < kFfdTiles; ++m) over_heads[m] = -INFINITY;
#pragma unroll
  for (int columns = 0; columns < kGroups; ++columns) {
    const int head = 4 * columns + lane % 4;
    float maximum = -INFINITY;
#pragma unroll
    for (int m = 0; m < kFfdTiles; ++m) {
      maximum = fmaxf(maximum, scores.maximum(columns, m));
      if ((m + 1) % sub_tiles != 0) continue;
#pragma unroll
      for (int o = 4; o < 32; o *= 2) maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, o));
      if (head < group) {
        if (head_maxima && lane < 4) head_maxima[m / sub_tiles * group + head] = maximum;
        over_heads[m] = fmaxf(over_heads[m], maximum);
      }
      maximum = -INFINITY;
    }
  }
  if (!maxima) return;
#pragma unroll
  for (int m = 0; m < kFfdTiles; ++m) {
    if ((m + 1) % sub_tiles != 0) continue;
    float maximum = over_heads[m];
    maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 1));
    maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 2));
    if (lane == 0) maxima[m / sub_tiles] = maximum;
  }
}

}  // namespace attest
