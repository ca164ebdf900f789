// Levels and values shared by the query heads of a group (one KV head).
#pragma once

#include <cstdint>

#include "kernels/base/level.h"
#include "kernels/base/row_matrix.h"

namespace attest {

/// Sets each token's level in rows [first, first + group) to the minimum over these rows: a token that one query head
/// keeps is kept by all of them. count: tokens.
void take_group_minimum(RowMatrix<Level>& levels, int first, int group, std::int64_t count);

/// Sets each entry of the rows to the maximum over them: the group's rank of the entry.
void take_group_maximum(RowMatrix<double>& values, int first, int group, std::int64_t count);

}  // namespace attest
