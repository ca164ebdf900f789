// s^ of kept tiles on the way from the scan to the refinement: through device memory in name, through the L2 cache in
// fact. Where much is kept they would else be a fourteenth of all bytes that move.
#pragma once

#include "kernels/decode/fused/ffd_scan.cuh"
#include "kernels/device/cache_policy.cuh"

namespace attest {

/// Stores the scores of the tiles in `mask`; `to` [128, group] is the block's.
template <int kGroups>
__device__ void store_scores(float* to, const FfdBlockScores<kGroups>& scores, unsigned mask, int group, int lane) {
  const int g = lane / 4, t = lane % 4;
  const std::uint64_t policy = read_again_policy();
#pragma unroll
  for (int columns = 0; columns < kGroups; ++columns) {
    const int head = 4 * columns + t;
    if (head >= group) continue;
    float* own = to + g * group + head;
#pragma unroll
    for (int m = 0; m < kFfdTiles; ++m, own += kFfdTile * group)
      if (mask >> m & 1) {
        store_with_policy(own, scores.score(columns, m, 0), policy);
        store_with_policy(own + 8 * group, scores.score(columns, m, 1), policy);
      }
  }
}

/// s^ of a tile, [16, group], in the order of FfdAttention::add; -inf where there is no head.
template <int kHalves>
__device__ void load_scores(float (&x)[kHalves][4], const float* scores, int group, int lane) {
  const std::uint64_t policy = read_once_policy();
#pragma unroll
  for (int h = 0; h < kHalves; ++h)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int head = 8 * h + 2 * (lane % 4) + r % 2;
      x[h][r] = head < group ? load_with_policy(scores + (lane / 4 + r / 2 * 8) * group + head, policy) : -INFINITY;
    }
}

/// The tile's scores, [16, group], have been read, and are not needed again. One thread.
template <int kGroups>
__device__ void discard_scores(const float* scores, int group) {
  if (group % 2 != 0) return;  // lines hold scores of other tiles, too
#pragma unroll
  for (int line = 0; line < 2 * kGroups; ++line)
    if (2 * line < group) discard_line(scores + line * 32);
}

}  // namespace attest
