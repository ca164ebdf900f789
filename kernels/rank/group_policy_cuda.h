// Reductions over the query heads of a group. The rows of a group are consecutive and have the same number of items.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/base/level.h"
#include "kernels/device/row_views.h"

namespace attest {

/// out[r][i] = maximum (or sum) of item i's values over the `group` rows of r's group. `out` may be `values`.
void cuda_group_maxima(const RowValues& values, int group, const DeviceMatrix<float>& out, cudaStream_t stream);
void cuda_group_sums(const RowValues& values, int group, const DeviceMatrix<float>& out, cudaStream_t stream);

/// Sets each item's level to the minimum over the rows of the group: an item that one query head keeps is kept by all.
void cuda_group_minimum_levels(const RaggedRows<Level>& levels, int group, cudaStream_t stream);

}  // namespace attest
