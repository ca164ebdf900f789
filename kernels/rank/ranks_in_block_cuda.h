// Rows that fit in shared memory are sorted and ranked by one kernel, so that neither their order nor their ranks go
// through device memory. For rank_correlation_cuda.cu, which takes all other rows.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_arena.h"
#include "kernels/device/row_views.h"

namespace attest {

/// Fills `centred` as cuda_centred_ranks(), and returns the order of cuda_sort_descending(), in `arena`. Nothing done
/// and no order if rows do not fit.
RowOrder cuda_rank_in_block(const RowValues& values, const DeviceMatrix<int>& centred, DeviceArena& arena,
                            cudaStream_t stream);

/// cuda_spearman() of an estimate of single items without an order. False, and nothing done, if rows do not fit.
bool cuda_spearman_in_block(const RowValues& estimate, const DeviceMatrix<const int>& centred, const RowCells& rho,
                            cudaStream_t stream);

}  // namespace attest
