// Scatters values from a chunk's rows to the cells of the results.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "analysis/metrics/rows_cuda.h"

namespace attest {

/// For a selector's own metrics: copies values [rows] or [rows, places.count] to their cells.
void place_row_values(const DeviceRows& rows, const float* values, float* out, cudaStream_t stream);
void place_setting_values(const DeviceRows& rows, const float* values, const SettingOffsets& places, float* out,
                          cudaStream_t stream);

/// Sets all values to NaN.
void fill_undefined(float* values, std::int64_t count, cudaStream_t stream);

}  // namespace attest
