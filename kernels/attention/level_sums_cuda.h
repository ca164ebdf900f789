// The online-softmax state of every (row, level) of a sweep on the device, and its prefix merge into every setting.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/attention/setting_outputs.h"
#include "kernels/device/device_rows.h"
#include "kernels/rank/sort_descending_cuda.h"

namespace attest {

/// Largest score of a level and sum of exp(s' - max) over it.
struct LevelSums {
  float* max = nullptr;   ///< [rows, S]; -inf where no token has the level
  double* sum = nullptr;  ///< [rows, S]
};

/// What a pass over a sweep reads.
struct LevelView {
  const float* scores = nullptr;  ///< s' [rows, stride]
  const Level* levels = nullptr;  ///< [rows, stride], each <= num_settings; null: all 0
  int num_settings = 1;           ///< S
  bool in_runs = false;           ///< 16 tokens of a row at multiples of 16 mostly share one level
  RowOrder order{};  ///< tokens of a row by ascending level, where known (items null: not); those that it lacks are
                     ///< kept at no setting
  const int* order_counts = nullptr;  ///< [rows] tokens in the order
  LevelSums sums;
  const int* begin = nullptr;  ///< [rows] first token of the pass; null: 0
  const int* end = nullptr;    ///< [rows] end of the pass; null: L
};

/// Weighted value sums by range of tokens.
struct LevelPartials {
  int num_splits = 0;
  int pitch = 0;                    ///< Dv, rounded up to an even number
  float* sums = nullptr;            ///< [num_splits, rows, S, pitch], defined where present
  std::uint8_t* present = nullptr;  ///< [num_splits, rows, S]
};

/// Tokens are added up in at most kMostSplits ranges, whose borders hang on the layer's longest row alone: how a layer
/// is cut into chunks changes no bit of the results.
inline constexpr int kMostSplits = 32;
constexpr int tokens_per_split(int longest) {
  const int wanted = (longest + kMostSplits - 1) / kMostSplits;
  return wanted <= 2 * kTileTokens ? 2 * kTileTokens : (wanted + kTileTokens - 1) / kTileTokens * kTileTokens;
}
constexpr int splits_of(const DeviceRows& rows) {
  return (rows.max_length + tokens_per_split(rows.longest) - 1) / tokens_per_split(rows.longest);
}

/// Fills view.sums over all visible tokens (begin and end are ignored).
void sum_levels(const DeviceRows& rows, const LevelView& view, cudaStream_t stream);

/// Output and log-sum-exp of every setting, as in SettingOutputs.
struct DeviceOutputs {
  float* output = nullptr;  ///< [rows, S, Dv]; zero where nothing is kept
  double* lse = nullptr;    ///< [rows, S]; -inf where nothing is kept
};

/// partials [count]: passes whose sums are added.
void merge_levels(const DeviceRows& rows, const LevelView& view, const LevelPartials* partials, int count,
                  int value_dim, const DeviceOutputs& out, cudaStream_t stream);

}  // namespace attest
