// Ranks of every row on the device and the rank correlation that they give, all in integers: exact for a given order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/device_arena.h"
#include "kernels/device/row_views.h"

namespace attest {

/// centred[r][item] = 2 * rank - (n + 1) with n = counts[r] and the average rank of tied values, 1 for the largest:
/// their sum is zero. `order` is that of `values`.
void cuda_centred_ranks(const RowValues& values, const RowOrder& order, const DeviceMatrix<int>& centred,
                        cudaStream_t stream);

/// An estimate in entries of `width` items each: all items of an entry share its value; the last may hold fewer.
struct EntryEstimate {
  RowValues entries;  ///< counts: entries of the row
  RowOrder order;     ///< of the entries
  int width = 1;
  const int* items = nullptr;  ///< [rows] items covered; only read where width > 1
};

/// Spearman's rho of every row between an estimate and centred ranks of the items. NaN if either is constant or nothing
/// is covered.
void cuda_spearman(const EntryEstimate& estimate, const DeviceMatrix<const int>& centred, const RowCells& rho,
                   cudaStream_t stream);

/// The items of `order`, as many per row as `values` has, that are below limit[r], in that order.
RowOrder cuda_order_below(const RowOrder& order, const RowValues& values, const int* limit, DeviceArena& arena,
                          cudaStream_t stream);

/// The items of `order` whose entry (item / width) is flagged; kept[r] receives their number.
RowOrder cuda_order_of_flagged(const RowOrder& order, const RowValues& values,
                               const DeviceMatrix<const std::uint8_t>& flags, int width, int* kept, DeviceArena& arena,
                               cudaStream_t stream);

}  // namespace attest
