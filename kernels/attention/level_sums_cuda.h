// Online-softmax state of every (row, level) of a sweep on the device, and the prefix merge into all settings.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/base/level.h"
#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"
#include "kernels/device/row_views.h"

namespace attest {

/// Largest score of each level of a row, and sum of exp(s' - max) over its tokens. Both are [rows, S].
struct LevelSums {
  DeviceMatrix<float> max;   ///< -inf if no token has the level
  DeviceMatrix<double> sum;  ///< 0 if no token has the level
};
LevelSums take_level_sums(const DeviceRows& rows, int num_settings, DeviceArena& arena);

/// Input of a pass over a sweep. Rows of scores and levels are aligned to 16 bytes and padded to eight tokens.
struct SweepView {
  DeviceMatrix<const float> scores;    ///< s'
  DeviceMatrix<const Level> levels{};  ///< each <= num_settings; null: all 0
  int num_settings = 1;                ///< S
  CountedOrder order{};  ///< optional: a row's tokens by ascending level; no setting keeps a token that is not listed
  LevelSums sums{};
  const int* begin = nullptr;  ///< [rows] first token of the pass; null: 0
  const int* end = nullptr;    ///< [rows] end of the pass; null: L
};

/// Fills view.sums over all visible tokens (begin and end are ignored).
void cuda_sum_levels(const DeviceRows& rows, const SweepView& view, cudaStream_t stream);

/// Weighted value sums per (token range, row, level).
struct LevelPartials {
  int num_splits = 0;               ///< number of token ranges
  int pitch = 0;                    ///< Dv, rounded up to an even number
  float* sums = nullptr;            ///< [num_splits, rows, S, pitch]; undefined where not present
  std::uint8_t* present = nullptr;  ///< [num_splits, rows, S]
};
/// Allocates partials with all `present` flags 0.
LevelPartials take_partials(const DeviceRows& rows, int num_settings, int value_dim, DeviceArena& arena,
                            cudaStream_t stream);

/// Tokens are summed in at most kMaxSplits ranges. The range boundaries depend only on the layer's longest row, so the
/// results are bit-identical however a layer is split into chunks.
inline constexpr int kMaxSplits = 32;
constexpr int tokens_per_split(int longest) {
  const int wanted = (longest + kMaxSplits - 1) / kMaxSplits;
  return wanted <= 2 * kTileTokens ? 2 * kTileTokens : (wanted + kTileTokens - 1) / kTileTokens * kTileTokens;
}

/// Output and log-sum-exp of every setting, as in SettingOutputs.
struct DeviceOutputs {
  float* output = nullptr;  ///< [rows, S, Dv]; zero if no token is kept
  double* lse = nullptr;    ///< [rows, S]; -inf if no token is kept
  int num_settings = 1;     ///< S
  int value_dim = 0;        ///< Dv
};
DeviceOutputs take_outputs(const DeviceRows& rows, int num_settings, int value_dim, DeviceArena& arena);

/// Merges the levels of every row into all settings. partials [count]: the sums of all passes are added.
void cuda_merge_levels(const DeviceRows& rows, const LevelSums& sums, const LevelPartials* partials, int count,
                       const DeviceOutputs& out, cudaStream_t stream);

}  // namespace attest
