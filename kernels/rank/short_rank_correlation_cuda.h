// Rank correlation of short rows on the device, by comparing every pair of items. Values are double; no sort is needed.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/row_views.h"

namespace attest {

/// Centred ranks as defined at cuda_centred_ranks() (rank_correlation_cuda.h).
void cuda_short_centred_ranks(const RaggedRows<const double>& values, const DeviceMatrix<int>& centred,
                              cudaStream_t stream);

/// Spearman's rho of every row from two sets of centred ranks. NaN if either set is constant or the row is empty.
void cuda_short_spearman(const RaggedRows<const int>& a, const DeviceMatrix<const int>& b, const RowCells& rho,
                         cudaStream_t stream);

}  // namespace attest
