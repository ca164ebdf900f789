// From scores or masses of items to entry levels on the device, each for a whole settings grid at once: the
// counterparts of entry_levels.h. Items are tokens, or pages or blocks of tokens.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/row_views.h"
#include "kernels/level.h"

namespace attest {

/// levels[r][i] = first g with value >= peak[r] - deltas[g]; S if none.
void cuda_threshold_levels(const RowValues& values, const float* peak, const QuerySettings<double>& deltas,
                           const DeviceMatrix<Level>& levels, cudaStream_t stream);

/// levels of the items in `order`, as many per row as `values` has: first g whose n[g] best include it.
void cuda_top_n_levels(const RowOrder& order, const RowValues& values, const QuerySettings<int>& n,
                       const DeviceMatrix<Level>& levels, cudaStream_t stream);

/// What the mass of an item is: its value, or exp(value - value of the first in the order), 1 where both are -inf.
enum class ItemMass : std::uint8_t { value, exponential };

/// The same for the smallest sets, in the order given, whose share of the total mass reaches shares[g].
void cuda_top_p_levels(const RowOrder& order, const RowValues& values, ItemMass mass,
                       const QuerySettings<double>& shares, const DeviceMatrix<Level>& levels, cudaStream_t stream);

}  // namespace attest
