// How a layer is cut into independent tasks: one KV head and a run of queries that share their first visible key.
#pragma once

#include <cstdint>
#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

/// Queries [first_query, first_query + visible.size()) of KV head `kv_head`; keys count from token first_key.
struct KvHeadBatch {
  int kv_head = 0;
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
  std::vector<std::int64_t> visible;  ///< L of each query, ascending
};

/// Batches in ascending order of KV head, then query; at most `max_rows` rows (query, query head) and `max_bytes` bytes
/// per [rows, length] matrix of doubles, but at least one query each.
std::vector<KvHeadBatch> kv_head_batches(const AttentionLayer& layer, int max_rows, std::int64_t max_bytes);

/// Tokens of the union of the layer's spans within [first_key, first_key + visible), relative to first_key, ascending.
std::vector<std::uint32_t> visible_span_tokens(const AttentionLayer& layer, std::int64_t first_key,
                                               std::int64_t visible);

}  // namespace attest
