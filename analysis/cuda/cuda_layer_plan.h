// Splits a layer into ranges of KV heads and groups of rows that the device processes together.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/layer/layer_results_layout.h"
#include "dumps/attention_layer.h"
#include "kernels/device/device_rows.h"

namespace attest {

/// One query and KV head: the G rows of a GQA group.
struct QueryGroup {
  int kv_head = 0;
  int query = 0;
};

/// KV heads [first, first + count) of a layer that are on the device together.
struct KvHeadRange {
  int first = 0;
  int count = 0;
};

/// `heads`, cut where KV heads that are dense for a selector meet others that are not.
std::vector<KvHeadRange> equally_dense(const KvHeadRange& heads, std::span<const SelectorLayout> selectors);

/// The groups of these KV heads, by KV head, then query.
std::vector<QueryGroup> query_groups(const AttentionLayer& layer, const KvHeadRange& heads);

/// Host copies of the arrays that DeviceRows points to.
struct RowTables {
  std::vector<RowBatch> batches;
  std::vector<KeyOrigin> origins;                 ///< kv_head counts from the first head of the range
  std::vector<int> visible, origin, query, cell;  ///< [rows]
  std::vector<float> sink;                        ///< [rows], or empty
  int max_length = 0;
  int max_batch_rows = 0;
};

/// The row tables of consecutive groups. All rows of a batch share one origin.
RowTables row_tables(const AttentionLayer& layer, const KvHeadRange& heads, std::span<const QueryGroup> groups);

/// Largest number of keys that a query of the layer sees.
int longest_row(const AttentionLayer& layer);

/// Scratch memory of a chunk in bytes per (row, token), approximate.
inline constexpr std::size_t kBytesPerElement = 64;

/// How many groups one chunk may have whose elements, (row, token) pairs, are at most so many; at least one. Every row
/// counts as the longest.
std::size_t groups_at_once(const AttentionLayer& layer, std::size_t elements);

/// The union of the layer's spans as disjoint ascending ranges.
std::vector<int2> disjoint_spans(const AttentionLayer& layer);

}  // namespace attest
