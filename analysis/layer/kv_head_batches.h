// Splits a layer into independent tasks of the CPU study: one KV head and consecutive queries with the same first
// visible key.
#pragma once

#include <cstdint>
#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

/// Queries [first_query, first_query + visible.size()) of KV head `kv_head`. Key indices count from token first_key.
struct KvHeadBatch {
  int kv_head = 0;
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
  std::vector<std::int64_t> visible;  ///< number of visible keys L of each query, ascending
};

inline constexpr int kMaxRowsPerPass = 32;                   ///< rows that share one pass over the keys
inline constexpr std::int64_t kMaxBatchBytes = 256ll << 20;  ///< per matrix; bounds memory at a million tokens

/// Batches in ascending order of KV head, then query. A batch has at most `max_rows` rows (query, query head), and its
/// [rows, length] matrix of doubles takes at most `max_bytes` bytes; but it has at least one query.
std::vector<KvHeadBatch> kv_head_batches(const AttentionLayer& layer, int max_rows = kMaxRowsPerPass,
                                         std::int64_t max_bytes = kMaxBatchBytes);

/// Tokens of the union of the layer's spans within [first_key, first_key + visible), relative to first_key, ascending.
std::vector<std::uint32_t> visible_span_tokens(const AttentionLayer& layer, std::int64_t first_key,
                                               std::int64_t visible);

}  // namespace attest
