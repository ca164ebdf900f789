// Makes a context of any length from the keys that a query of a dump sees.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace attest {

/// The token whose key and value stand at each place of a context of `length` tokens, made from `tokens` of a dump. The
/// first block, where attention sinks are, and the last four, which are nearest to the query, stay in place; what is
/// between them is cut at its older end, or repeated, in whole blocks where it has one.
std::vector<std::int64_t> tiled_tokens(std::int64_t tokens, std::int64_t length);

/// Rows of tensors [heads, tokens, row_bytes] at these tokens: [heads, which.size(), row_bytes].
std::vector<std::byte> gather_tokens(std::span<const std::byte> values, std::int64_t heads, std::int64_t tokens,
                                     std::int64_t row_bytes, std::span<const std::int64_t> which);

}  // namespace attest
