// Ranks of every row on the device and the rank correlation that they give, all in integers: exact for a given order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/rank/sort_descending_cuda.h"

namespace attest {

/// centred[r][item] = 2 * rank - (n + 1) with n = counts[r] and the average rank of tied values, 1 for the largest:
/// their sum is zero. `order` is that of `values`. [rows, stride of values].
void centred_ranks(const RowValues& values, const RowOrder& order, int* centred, cudaStream_t stream);

/// sort_rows() and centred_ranks() in one.
RowOrder rank_rows(const RowValues& values, int* centred, DeviceArena& arena, cudaStream_t stream);

/// Spearman's rho of every row between an estimate in entries of `width` items each (all items of an entry share its
/// value; the last may hold fewer) and ranks of items. NaN if either is constant or nothing is covered.
struct EntryEstimate {
  RowValues entries;  ///< counts: entries of the row
  RowOrder order;     ///< of the entries
  int width = 1;
  const int* items = nullptr;  ///< [rows] items covered; only read where width > 1
};
void spearman_rows(const EntryEstimate& estimate, const int* centred, std::int64_t stride, float* rho, const int* cell,
                   cudaStream_t stream);

/// The same for single items whose order nobody needs.
void spearman_of_values(const RowValues& values, const int* centred, std::int64_t stride, float* rho, const int* cell,
                        DeviceArena& arena, cudaStream_t stream);

/// The items of `order` that are below limit[r], in that order.
RowOrder order_below(const RowOrder& order, const RowValues& values, const int* limit, DeviceArena& arena,
                     cudaStream_t stream);

/// The items of `order` whose entry (item / width) is flagged: [rows, flag_stride]; kept[r] receives their number.
RowOrder order_of_flagged(const RowOrder& order, const RowValues& values, const std::uint8_t* flags,
                          std::int64_t flag_stride, int width, int* kept, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
