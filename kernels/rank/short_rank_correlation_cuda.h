// Rank correlation of rows of few items on the device, by comparing every pair: values in double, no order needed.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/rank/entry_levels_cuda.h"

namespace attest {

/// As segment_maxima(), of values + low (null: 0). out [rows, out_stride].
void segment_maxima_in_double(const Segments& segments, const float* low, double* out, std::int64_t out_stride,
                              cudaStream_t stream);

/// As centred_ranks() of row_ranks.h.
void centred_ranks_of_few(const double* values, std::int64_t stride, const int* counts, int rows, int* centred,
                          cudaStream_t stream);

/// Spearman's rho of every row from two sets of centred ranks; NaN if either is constant or the row is empty.
void spearman_of_ranks(const int* a, const int* b, std::int64_t stride, const int* counts, int rows, float* rho,
                       const int* cell, cudaStream_t stream);

}  // namespace attest
