// From rows of a chunk to cells of the results.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "analysis/metrics/rows_cuda.h"

namespace attest {

/// Of metrics that a selector itself defines: values [rows], or [rows, places.count], to their cells.
void place_row_values(const DeviceRows& rows, const float* values, float* out, cudaStream_t stream);
void place_setting_values(const DeviceRows& rows, const float* values, const SettingPlaces& places, float* out,
                          cudaStream_t stream);

/// NaN everywhere.
void fill_undefined(float* values, std::int64_t count, cudaStream_t stream);

}  // namespace attest
