// The online-softmax state of every (row, level) of a sweep on the device, and its prefix merge into every setting.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"
#include "kernels/device/row_views.h"
#include "kernels/level.h"

namespace attest {

/// Largest score of each level of a row, and sum of exp(s' - max) over its tokens. Rows are S wide.
struct LevelSums {
  DeviceMatrix<float> max;   ///< -inf where no token has the level
  DeviceMatrix<double> sum;  ///< 0 there
};
LevelSums take_level_sums(const DeviceRows& rows, int num_settings, DeviceArena& arena);

/// What a pass over a sweep reads. Rows of scores and levels are aligned to 16 bytes and padded to eight tokens.
struct SweepView {
  DeviceMatrix<const float> scores;    ///< s'
  DeviceMatrix<const Level> levels{};  ///< each <= num_settings; null: all 0
  int num_settings = 1;                ///< S
  CountedOrder order{};  ///< tokens of a row by ascending level, where known; the others are kept at no setting
  LevelSums sums{};
  const int* begin = nullptr;  ///< [rows] first token of the pass; null: 0
  const int* end = nullptr;    ///< [rows] end of the pass; null: L
};

/// Fills view.sums over all visible tokens (begin and end are ignored).
void cuda_sum_levels(const DeviceRows& rows, const SweepView& view, cudaStream_t stream);

/// Weighted value sums by range of tokens.
struct LevelPartials {
  int num_splits = 0;
  int pitch = 0;                    ///< Dv, rounded up to an even number
  float* sums = nullptr;            ///< [num_splits, rows, S, pitch], defined where present
  std::uint8_t* present = nullptr;  ///< [num_splits, rows, S]
};
/// None of them present.
LevelPartials take_partials(const DeviceRows& rows, int num_settings, int value_dim, DeviceArena& arena,
                            cudaStream_t stream);

/// Tokens are added up in at most kMostSplits ranges. Their borders follow from the layer's longest row alone: how a
/// layer is cut into chunks changes no bit of the results.
inline constexpr int kMostSplits = 32;
constexpr int tokens_per_split(int longest) {
  const int wanted = (longest + kMostSplits - 1) / kMostSplits;
  return wanted <= 2 * kTileTokens ? 2 * kTileTokens : (wanted + kTileTokens - 1) / kTileTokens * kTileTokens;
}

/// Output and log-sum-exp of every setting, as in SettingOutputs.
struct DeviceOutputs {
  float* output = nullptr;  ///< [rows, S, Dv]; zero where nothing is kept
  double* lse = nullptr;    ///< [rows, S]; -inf where nothing is kept
  int num_settings = 1;     ///< S
  int value_dim = 0;        ///< Dv
};
DeviceOutputs take_outputs(const DeviceRows& rows, int num_settings, int value_dim, DeviceArena& arena);

/// partials [count]: passes whose sums are added.
void cuda_merge_levels(const DeviceRows& rows, const LevelSums& sums, const LevelPartials* partials, int count,
                       const DeviceOutputs& out, cudaStream_t stream);

}  // namespace attest
