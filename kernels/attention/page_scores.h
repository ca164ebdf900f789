// Quest's page metadata (minimum and maximum of every key channel) and the upper bound on the page's scores that
// follows from it.
#pragma once

#include <cstdint>

#include "kernels/base/kv_head.h"
#include "kernels/base/row_matrix.h"

namespace attest {

constexpr std::int64_t pages_of(std::int64_t tokens, int page) { return (tokens + page - 1) / page; }

/// bounds [pages, D, 2]: largest and smallest key[d] over each page of `page` tokens. The last page may be partial.
void page_bounds(const float* keys, std::int64_t tokens, int head_dim, int page, float* bounds);

/// out[r][i] = transform(sum_d max(q_d * max_d, q_d * min_d)) of page i, for every page of which row r sees at least
/// one token. The terms are summed in double in ascending d, as in an exact score, and rounding is monotone. So no
/// exact score within the page exceeds the bound, even by one unit in the last place.
void page_scores(const KvHead& head, int page, RowMatrix<double>& out);

}  // namespace attest
