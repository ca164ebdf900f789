// From levels of blocks or pages to levels of tokens, and what share of the items each setting keeps.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_rows.h"
#include "kernels/device/row_views.h"
#include "kernels/level.h"

namespace attest {

/// levels[r][j] = items[r][j / width] for tokens j < covered[r] (null: all visible ones), 0 from there to the end of
/// the row. levels [rows, rows.stride].
void cuda_token_levels(const DeviceRows& rows, const DeviceMatrix<const Level>& items, int width, const int* covered,
                       Level* levels, cudaStream_t stream);

/// levels[r][j] = level for all visible tokens.
void cuda_fill_levels(const DeviceRows& rows, Level level, Level* levels, cudaStream_t stream);

/// shares[r][g] = part of the row's items with a level <= g; NaN where there are none. shares [rows, num_settings].
void cuda_level_shares(const RaggedRows<const Level>& levels, int num_settings, float* shares, cudaStream_t stream);

}  // namespace attest
