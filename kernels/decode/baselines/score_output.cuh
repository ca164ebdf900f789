// Where scans leave the scores of a block of tokens, and the maxima of its sub-blocks.
#pragma once

#include <cmath>

#include "kernels/decode/baselines/token_tiles.cuh"

namespace attest {

/// Scales a tile's scores and stores those of tokens below `length` to scores [max_tokens, group] of the pair.
__device__ inline void store_scores(TileScores& s, float scale, float* scores, int group, int first, int length,
                                    int lane) {
#pragma unroll
  for (int t = 0; t < 2; ++t)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s[t][i] *= scale;
      const int token = first + score_token(t, i, lane), head = score_head(i, lane);
      if (scores != nullptr && token < length && head < group)
        scores[static_cast<std::int64_t>(token) * group + head] = s[t][i];
    }
}

/// Largest score of each head over the tile's tokens; of heads lane_row and lane_row + 8.
__device__ inline void tile_maxima(const TileScores& s, float (&maximum)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float own = fmaxf(fmaxf(s[0][2 * half], s[0][2 * half + 1]), fmaxf(s[1][2 * half], s[1][2 * half + 1]));
    own = fmaxf(own, __shfl_xor_sync(0xFFFFFFFFu, own, 1));
    maximum[half] = fmaxf(own, __shfl_xor_sync(0xFFFFFFFFu, own, 2));
  }
}

}  // namespace attest
