// Reductions over segments of consecutive items of a row: the blocks or pages that a rule keeps or drops as a whole.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/row_views.h"

namespace attest {

/// out[r][i] = largest value of items [i * width, min((i + 1) * width, counts[r])), for i < out.counts[r].
void cuda_segment_maxima(const RowValues& values, int width, const RaggedRows<float>& out, cudaStream_t stream);

/// The same for values + low, in double. If `low` is null, it counts as 0.
void cuda_segment_maxima(const RowValues& values, const DeviceMatrix<const float>& low, int width,
                         const RaggedRows<double>& out, cudaStream_t stream);

/// out[r][i] = sum of exp(value - peak[r]) over the same items.
void cuda_segment_masses(const RowValues& values, int width, const float* peak, const RaggedRows<float>& out,
                         cudaStream_t stream);

/// out[r] = largest value of row r, which is not empty.
void cuda_row_maxima(const RowValues& values, float* out, cudaStream_t stream);

}  // namespace attest
