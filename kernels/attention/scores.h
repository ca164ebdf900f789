// Attention scores of a batch of rows against the keys of one KV head, in double.
#pragma once

#include <cstdint>

#include "kernels/base/kv_head.h"
#include "kernels/base/row_matrix.h"

namespace attest {

/// out[r][j] = transform(sum_d queries[r][d] * keys[j][d]), r < rows, j < length.
/// queries [rows, head_dim], keys [length, head_dim], row-major. The sum runs over d in ascending order in double. So
/// equal keys get equal scores, and a row's scores do not depend on the other rows of the batch.
void scores(const float* queries, int rows, int head_dim, const float* keys, std::int64_t length,
            const ScoreTransform& transform, RowMatrix<double>& out);

/// The same into an existing matrix: `out` points to row 0 of the first token; rows are out_stride doubles apart.
void scores_into(const float* queries, int rows, int head_dim, const float* keys, std::int64_t length,
                 const ScoreTransform& transform, double* out, std::int64_t out_stride);

/// The same of keys in double.
void scores_into(const float* queries, int rows, int head_dim, const double* keys, std::int64_t length,
                 const ScoreTransform& transform, double* out, std::int64_t out_stride);

/// Scores of keys + residuals (FFD's thumbnail and residual). Keys are added, and dot products summed, in double.
/// This is s_final = (q.k^quant + q.k^res) / sqrt(d) of the FFD paper.
void scores_of_sum_into(const float* queries, int rows, int head_dim, const float* keys, const float* residuals,
                        std::int64_t length, const ScoreTransform& transform, double* out, std::int64_t out_stride);

}  // namespace attest
