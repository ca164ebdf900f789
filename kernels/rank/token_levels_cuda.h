// Token levels from block or page levels, and the share of items that each setting keeps.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/base/level.h"
#include "kernels/device/device_rows.h"
#include "kernels/device/row_views.h"

namespace attest {

/// levels[r][j] = items[r][j / width] for tokens j < covered[r] (all visible tokens if `covered` is null), and 0 for
/// the other visible tokens. levels [rows, rows.stride].
void cuda_token_levels(const DeviceRows& rows, const DeviceMatrix<const Level>& items, int width, const int* covered,
                       Level* levels, cudaStream_t stream);

/// levels[r][j] = level for all visible tokens.
void cuda_fill_levels(const DeviceRows& rows, Level level, Level* levels, cudaStream_t stream);

/// shares[r][g] = fraction of the row's items with level <= g; NaN if the row has no items.
/// shares [rows, num_settings].
void cuda_level_shares(const RaggedRows<const Level>& levels, int num_settings, float* shares, cudaStream_t stream);

}  // namespace attest
