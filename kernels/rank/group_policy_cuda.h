// What the query heads of a group decide together. Rows of a group follow each other and have the same number of items.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/row_views.h"
#include "kernels/level.h"

namespace attest {

/// out[r][i] = the largest value (the sum) of item i over the `group` rows that r stands among. `out` may be `values`.
void cuda_group_maxima(const RowValues& values, int group, const DeviceMatrix<float>& out, cudaStream_t stream);
void cuda_group_sums(const RowValues& values, int group, const DeviceMatrix<float>& out, cudaStream_t stream);

/// Every row of a group gets the group's least level of each item: what any head keeps is kept by all.
void cuda_group_levels(const RaggedRows<Level>& levels, int group, cudaStream_t stream);

}  // namespace attest
