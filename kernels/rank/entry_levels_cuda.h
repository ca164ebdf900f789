// Entry levels from scores or masses of items, on the device: the counterpart of entry_levels.h. Each function handles
// a whole grid of settings at once. Items are tokens, pages or blocks.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/base/level.h"
#include "kernels/device/row_views.h"

namespace attest {

/// levels[r][i] = first g with value[r][i] >= peak[r] - deltas[g]; S if none.
void cuda_threshold_levels(const RowValues& values, const float* peak, const QuerySettings<double>& deltas,
                           const DeviceMatrix<Level>& levels, cudaStream_t stream);

/// Levels of the first values.counts[r] items in `order`: first g with the item among the first n[g]; S if none.
void cuda_top_n_levels(const RowOrder& order, const RowValues& values, const QuerySettings<int>& n,
                       const DeviceMatrix<Level>& levels, cudaStream_t stream);

/// Definition of an item's mass: its value, or exp(value - value of the first item in the order). The latter is 1 if
/// both values are -inf.
enum class ItemMass : std::uint8_t { value, exponential };

/// Levels of the same items: first g with the item in set g; S if none. Set g is the shortest prefix of `order` whose
/// share of the total mass reaches shares[g], within kShareTolerance; it contains at least one item. Levels never
/// decrease along `order`, however the masses are rounded: cuda_sweep_in_order() counts on it.
void cuda_top_p_levels(const RowOrder& order, const RowValues& values, ItemMass mass,
                       const QuerySettings<double>& shares, const DeviceMatrix<Level>& levels, cudaStream_t stream);

}  // namespace attest
