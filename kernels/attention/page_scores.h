// Quest's metadata of the key cache: the range of every channel over a page of tokens, and the upper bound of a score
// that it gives.
#pragma once

#include <cstdint>

#include "kernels/kv_head.h"
#include "kernels/row_matrix.h"

namespace attest {

constexpr std::int64_t pages_of(std::int64_t tokens, int page) { return (tokens + page - 1) / page; }

/// bounds [pages, D, 2]: the largest and the smallest key[d] over each page of `page` tokens; the last page may be
/// partial.
void page_bounds(const float* keys, std::int64_t tokens, int head_dim, int page, float* bounds);

/// out[r][i] = transform(sum_d max(q_d * max_d, q_d * min_d)) of page i, for the pages that row r sees, the last
/// perhaps in part. Terms are summed in double in ascending d like an exact score's, and rounding is monotone, so the
/// bound holds to the last bit: no exact score within the page exceeds it.
void page_scores(const KvHead& head, int page, RowMatrix<double>& out);

}  // namespace attest
