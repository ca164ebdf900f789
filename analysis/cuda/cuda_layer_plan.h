// How a layer is cut into pieces that the device works on together.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dumps/attention_layer.h"
#include "kernels/device/device_rows.h"

namespace attest {

/// One query and KV head: G rows.
struct QueryGroup {
  int kv_head = 0;
  int query = 0;
};

/// KV heads [first, first + count) of a layer that lie on the device together.
struct KvHeadRange {
  int first = 0;
  int count = 0;
};

/// The groups of these KV heads in the order of their rows.
std::vector<QueryGroup> query_groups(const AttentionLayer& layer, const KvHeadRange& heads);

/// Host copies of what DeviceRows points to.
struct RowTables {
  std::vector<RowBatch> batches;
  std::vector<KeyOrigin> origins;                 ///< kv_head counts from the range's first
  std::vector<int> visible, origin, query, cell;  ///< [rows]
  std::vector<float> sink;                        ///< [rows], or empty
  int max_length = 0;
  int max_batch_rows = 0;
};

/// Rows of a run of groups. The rows of a batch share their origin.
RowTables row_tables(const AttentionLayer& layer, const KvHeadRange& heads, std::span<const QueryGroup> groups);

/// Keys that the query which sees most of them sees.
int longest_row(const AttentionLayer& layer);

/// The union of the layer's spans as disjoint ascending ranges.
std::vector<int2> disjoint_spans(const AttentionLayer& layer);

}  // namespace attest
