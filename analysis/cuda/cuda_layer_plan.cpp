// Row tables, query groups and spans of a layer.
#include "analysis/cuda/cuda_layer_plan.h"

#include <algorithm>

#include "dumps/token_spans.h"

namespace attest {
namespace {

constexpr std::size_t kMaxRows = 1 << 15;  // of a chunk; rows are the y dimension of grids, at most 65535

}  // namespace

std::vector<KvHeadRange> equally_dense(const KvHeadRange& heads, std::span<const SelectorLayout> selectors) {
  std::vector<KvHeadRange> ranges;
  for (int h = heads.first; h < heads.first + heads.count; ++h) {
    const auto differs = [h](const SelectorLayout& selector) {
      const auto head = static_cast<std::size_t>(h);
      return selector.dense_heads[head] != selector.dense_heads[head - 1];
    };
    if (ranges.empty() || std::ranges::any_of(selectors, differs)) ranges.push_back({h, 0});
    ++ranges.back().count;
  }
  return ranges;
}

std::vector<QueryGroup> query_groups(const AttentionLayer& layer, const KvHeadRange& heads) {
  std::vector<QueryGroup> groups;
  for (int h = heads.first; h < heads.first + heads.count; ++h)
    for (int n = 0; n < layer.num_queries(); ++n) groups.push_back({h, n});
  return groups;
}

RowTables row_tables(const AttentionLayer& layer, const KvHeadRange& heads, std::span<const QueryGroup> groups) {
  RowTables tables;
  const int group = layer.shape.group();
  for (const QueryGroup& place : groups) {
    const std::int64_t position = layer.query_positions[static_cast<std::size_t>(place.query)];
    const int first_key = static_cast<int>(layer.first_visible_key(position)),
              visible = static_cast<int>(position) + 1 - first_key;
    const int kv_head = place.kv_head - heads.first;
    const bool opens = tables.origins.empty() || tables.origins.back().kv_head != kv_head ||
                       tables.origins.back().first_key != first_key;
    if (opens) tables.origins.push_back({.kv_head = kv_head, .first_key = first_key, .length = 0});
    KeyOrigin& origin = tables.origins.back();
    origin.length = std::max(origin.length, visible);
    tables.max_length = std::max(tables.max_length, visible);
    for (int h = 0; h < group; ++h) {
      const int row = static_cast<int>(tables.visible.size()), index = static_cast<int>(tables.origins.size()) - 1;
      if ((opens && h == 0) || tables.batches.back().num_rows == kMaxBatchRows)
        tables.batches.push_back({.first_row = row, .num_rows = 0, .length = 0, .origin = index, .params = index});
      RowBatch& batch = tables.batches.back();
      ++batch.num_rows;
      batch.length = std::max(batch.length, visible);
      tables.max_batch_rows = std::max(tables.max_batch_rows, batch.num_rows);
      tables.visible.push_back(visible);
      tables.origin.push_back(index);
      tables.query.push_back(place.query);
      tables.cell.push_back(place.query * layer.shape.num_query_heads + place.kv_head * group + h);
      if (!layer.sinks.empty()) tables.sink.push_back(layer.sinks[static_cast<std::size_t>(place.kv_head * group + h)]);
    }
  }
  return tables;
}

int longest_row(const AttentionLayer& layer) {
  const std::int64_t position = layer.query_positions.back();
  return static_cast<int>(position + 1 - layer.first_visible_key(position));
}

std::size_t groups_at_once(const AttentionLayer& layer, std::size_t elements) {
  const std::size_t rows = std::min(elements / static_cast<std::size_t>(longest_row(layer)), kMaxRows);
  return std::max<std::size_t>(1, rows / static_cast<std::size_t>(layer.shape.group()));
}

std::vector<int2> disjoint_spans(const AttentionLayer& layer) {
  std::vector<int2> spans;
  for (const TokenSpan& span : merged_spans(layer.spans))
    spans.push_back({static_cast<int>(span.begin), static_cast<int>(span.end)});
  return spans;
}

}  // namespace attest
