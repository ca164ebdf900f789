// select_queries moves rows within their buffers.
#include "dumps/attention_layer.h"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace attest {

void select_queries(AttentionLayer& layer, std::span<const std::size_t> which) {
  if (layer.query_positions.empty() && which.empty()) return;  // sizes of rows are told from the rows
  const std::size_t row = static_cast<std::size_t>(layer.shape.num_query_heads) *
                          static_cast<std::size_t>(layer.shape.head_dim) * size_of(layer.element_type);
  std::vector<std::int64_t> positions(which.size());
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (which[i] >= layer.query_positions.size() || (i > 0 && which[i] <= which[i - 1])) {
      throw std::invalid_argument("select_queries: indices must ascend and be below the number of queries");
    }
    positions[i] = layer.query_positions[which[i]];
  }
  // In place: a row only moves to a lower index and never overwrites a row that is still needed.
  const auto select = [&](LayerBuffer& buffer, std::size_t row_bytes) {
    for (std::size_t i = 0; i < which.size(); ++i)
      std::memmove(buffer.data() + i * row_bytes, buffer.data() + which[i] * row_bytes, row_bytes);
    buffer.resize(which.size() * row_bytes);
  };
  select(layer.q, row);
  for (LayerEstimates& estimates : layer.estimates)
    if (estimates.source.kind == EstimateKind::scores)
      select(estimates.values, estimates.values.size() / layer.query_positions.size());
  const std::size_t gradient_row = layer.output_gradient.size() / layer.query_positions.size();
  for (std::size_t i = 0; i < which.size(); ++i)
    std::copy_n(layer.output_gradient.begin() + static_cast<std::ptrdiff_t>(which[i] * gradient_row), gradient_row,
                layer.output_gradient.begin() + static_cast<std::ptrdiff_t>(i * gradient_row));
  layer.output_gradient.resize(which.size() * gradient_row);
  layer.query_positions = std::move(positions);
}

}  // namespace attest
