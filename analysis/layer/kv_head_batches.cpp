// Splits a layer into tasks; finds the span tokens that a query sees.
#include "analysis/layer/kv_head_batches.h"

#include <algorithm>

#include "dumps/token_spans.h"

namespace attest {

std::vector<KvHeadBatch> kv_head_batches(const AttentionLayer& layer, int max_rows, std::int64_t max_bytes) {
  std::vector<KvHeadBatch> batches;
  const int group = layer.shape.group();
  for (int g = 0; g < layer.shape.num_kv_heads; ++g) {
    bool open = false;
    for (std::int64_t n = 0; n < layer.num_queries(); ++n) {
      const std::int64_t position = layer.query_positions[static_cast<std::size_t>(n)];
      const std::int64_t first_key = layer.first_visible_key(position), visible = position + 1 - first_key;
      if (open) {
        const KvHeadBatch& last = batches.back();
        const std::int64_t rows = (static_cast<std::int64_t>(last.visible.size()) + 1) * group;
        open = last.first_key == first_key && rows <= max_rows && rows * visible * 8 <= max_bytes;
      }
      if (!open) batches.push_back({.kv_head = g, .first_query = n, .first_key = first_key, .visible = {}});
      batches.back().visible.push_back(visible);
      open = true;
    }
  }
  return batches;
}

std::vector<std::uint32_t> visible_span_tokens(const AttentionLayer& layer, std::int64_t first_key,
                                               std::int64_t visible) {
  std::vector<std::uint32_t> tokens;
  for (const TokenSpan& span : merged_spans(layer.spans))
    for (std::int64_t t = std::max(span.begin, first_key); t < std::min(span.end, first_key + visible); ++t)
      tokens.push_back(static_cast<std::uint32_t>(t - first_key));
  return tokens;
}

}  // namespace attest
