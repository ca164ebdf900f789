// Attention whose values are added up in float16, a token at a time: llama.cpp's flash attention on processors, where
// values in the cache are float16 and few queries come at once.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/audit/row_attention.h"

namespace attest {

/// Tokens of a part when llama.cpp's threads share a cache of `tokens` tokens: the cache is read in steps of 256 cells,
/// and shared from 512 on.
std::int64_t half_sum_part(std::int64_t tokens, int threads);

/// The output [Dv] of a row. Sums, and their products when a larger score comes, are rounded to float16 after each
/// token; those of parts of `part` tokens are put together in float32. Sums beyond float16 are infinite.
std::vector<double> half_sum_output(const StoredHead& head, const RowModel& row, const ScoreTransform& transform,
                                    std::int64_t part);

}  // namespace attest
