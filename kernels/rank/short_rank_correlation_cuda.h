// Rank correlation of rows of few items on the device, by comparing every pair: values in double, no order needed.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/row_views.h"

namespace attest {

/// As cuda_centred_ranks() (rank_correlation_cuda.h).
void cuda_short_centred_ranks(const RaggedRows<const double>& values, const DeviceMatrix<int>& centred,
                              cudaStream_t stream);

/// Spearman's rho of every row from two sets of centred ranks; NaN if either is constant or the row is empty.
void cuda_short_spearman(const RaggedRows<const int>& a, const DeviceMatrix<const int>& b, const RowCells& rho,
                         cudaStream_t stream);

}  // namespace attest
