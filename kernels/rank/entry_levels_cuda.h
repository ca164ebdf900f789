// From scores or masses of items to entry levels on the device, each for a whole settings grid at once: the
// counterparts of entry_levels.h. Items are tokens, or pages or blocks of tokens.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/attention/setting_outputs.h"
#include "kernels/device/device_rows.h"
#include "kernels/rank/sort_descending_cuda.h"

namespace attest {

/// Ascending settings of every query of the layer: [queries, S].
template <class T>
struct QuerySettings {
  const T* values = nullptr;
  int count = 0;  ///< S
};

/// Largest value of consecutive items: out [rows, out.stride], item i over tokens [i width, min((i + 1) width,
/// tokens[r])), for i < out_counts[r] = items.
struct Segments {
  const float* values = nullptr;  ///< [rows, stride]
  std::int64_t stride = 0;
  const int* tokens = nullptr;  ///< [rows]
  int width = 1;
  const int* counts = nullptr;  ///< [rows] segments
  int rows = 0;
  int max_count = 0;
};
void segment_maxima(const Segments& segments, float* out, std::int64_t out_stride, cudaStream_t stream);
/// Sum of exp(value - peak[r]) over each segment.
void segment_masses(const Segments& segments, const float* peak, float* out, std::int64_t out_stride,
                    cudaStream_t stream);

/// out[r][i] = largest value (or sum) over the `group` rows that r stands among; every row of the group gets it.
void group_maxima(const RowValues& values, int group, float* out, cudaStream_t stream);
void group_sums(const RowValues& values, int group, float* out, cudaStream_t stream);

/// levels[r][i] = first g with value >= peak[r] - deltas[query[r]][g]; S if none. levels [rows, stride of values].
void threshold_item_levels(const RowValues& values, const double* peak, const int* query, QuerySettings<double> deltas,
                           Level* levels, cudaStream_t stream);

/// levels of the items in `order` = first g whose n[query[r]][g] best include it; counts[r] items in the order.
void top_n_item_levels(const RowOrder& order, const RowValues& values, const int* query, QuerySettings<int> n,
                       Level* levels, std::int64_t levels_stride, cudaStream_t stream);

/// The same for the smallest sets, in the order given, whose share of the total mass reaches shares[query[r]][g]. Mass
/// of an item is its value, or exp(value - value of the first in the order) where `exponential`.
void top_p_item_levels(const RowOrder& order, const RowValues& values, bool exponential, const int* query,
                       QuerySettings<double> shares, Level* levels, std::int64_t levels_stride, cudaStream_t stream);

/// Every row of a group gets the least level of the group.
void least_group_levels(Level* levels, std::int64_t stride, const int* counts, int max_count, int rows, int group,
                        cudaStream_t stream);

/// levels[r][j] = item_levels[r][j / width] for j < covered[r] (null: all visible), 0 from there to the end of the row.
void expand_levels(const DeviceRows& rows, const Level* item_levels, std::int64_t item_stride, int width,
                   const int* covered, Level* levels, cudaStream_t stream);

/// levels[r][j] = level for all visible tokens.
void fill_levels(const DeviceRows& rows, Level level, Level* levels, cudaStream_t stream);

/// shares[r][g] = part of the row's items with a level <= g; NaN where there are none.
void level_shares(const Level* levels, std::int64_t stride, const int* counts, int rows, int num_settings,
                  float* shares, cudaStream_t stream);

}  // namespace attest
