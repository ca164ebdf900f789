// Ranks and rank correlation of every row on the device. All sums are integers, so they are exact for a given order, of
// rows of up to kMaxRankedItems.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/device_arena.h"
#include "kernels/device/row_views.h"

namespace attest {

/// Of a row: the sum of the squares of its centred ranks, n^3 / 3, stays below 2^63.
inline constexpr std::int64_t kMaxRankedItems = 3'000'000;

/// Centred ranks: centred[r][item] = 2 * rank - (n + 1), n = counts[r]. The largest value has rank 1; tied values get
/// their average rank. The centred ranks of a row sum to zero. `order` is the descending order of `values`.
void cuda_centred_ranks(const RowValues& values, const RowOrder& order, const DeviceMatrix<int>& centred,
                        cudaStream_t stream);

/// cuda_centred_ranks() of values without an order, which is returned as cuda_sort_descending() does.
RowOrder cuda_sort_and_rank(const RowValues& values, const DeviceMatrix<int>& centred, DeviceArena& arena,
                            cudaStream_t stream);

/// An estimate with one value per entry of `width` consecutive items. The last entry may have fewer items.
struct EntryEstimate {
  RowValues entries;  ///< counts: entries per row
  RowOrder order{};   ///< descending order of the entries, if they have been sorted
  int width = 1;
  const int* items = nullptr;  ///< [rows] items covered; only read where width > 1
};

/// Spearman's rho of every row between an estimate and the centred ranks of the items. NaN if either is constant or the
/// estimate covers no items.
void cuda_spearman(const EntryEstimate& estimate, const DeviceMatrix<const int>& centred, const RowCells& rho,
                   DeviceArena& arena, cudaStream_t stream);

/// Filters `order` (values.counts[r] items per row): keeps items below limit[r], in the same order.
RowOrder cuda_order_below(const RowOrder& order, const RowValues& values, const int* limit, DeviceArena& arena,
                          cudaStream_t stream);

/// Filters `order`: keeps items whose entry (item / width) is flagged, in the same order. kept[r] is their number.
RowOrder cuda_order_of_flagged(const RowOrder& order, const RowValues& values,
                               const DeviceMatrix<const std::uint8_t>& flags, int width, int* kept, DeviceArena& arena,
                               cudaStream_t stream);

}  // namespace attest
