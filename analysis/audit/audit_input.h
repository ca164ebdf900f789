// What one layer of a dump is audited with.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/audit/expected_rows.h"
#include "analysis/layer/layer_amax.h"
#include "dumps/attention_layer.h"

namespace attest {

/// A layer with what the engine gave for its queries.
struct AuditInput {
  const AttentionLayer& layer;
  std::span<const float> output;      ///< [N, Hq, Dv], finite
  std::span<const float> output_lse;  ///< [N, Hq], finite; or empty
  ElementType output_type = ElementType::float32;
  std::optional<std::int64_t> prompt_length = {};
  std::string rope = {};                         ///< of the dump
  std::vector<std::int64_t> other_windows = {};  ///< of the dump's other layers
  bool of_llama_cpp = false;                     ///< the engine, which has rounding steps of its own

  std::span<const float> observed(std::int64_t query, int head) const {
    return output.subspan(row(query, head) * static_cast<std::size_t>(layer.shape.value_dim),
                          static_cast<std::size_t>(layer.shape.value_dim));
  }
  double observed_lse(std::int64_t query, int head) const {
    return output_lse.empty() ? NAN : output_lse[row(query, head)];
  }
  std::vector<float> query(std::int64_t query, int head) const {
    const auto dim = static_cast<std::size_t>(layer.shape.head_dim);
    std::vector<float> values(dim);
    convert_to_float(layer.element_type, layer.q.data() + row(query, head) * dim * size_of(layer.element_type), dim,
                     values.data());
    return values;
  }

 private:
  std::size_t row(std::int64_t query, int head) const {
    return static_cast<std::size_t>(query * layer.shape.num_query_heads + head);
  }
};

struct AuditOptions {
  AuditedSelector expected;  ///< what the engine says it does
  bool of_dump = false;      ///< `expected` is the dump's kv_cache, for which layers may have scales of their own
  double roundings = kRoundings;
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;
};

/// A row of a layer.
struct RowPlace {
  std::int64_t query = 0;  ///< index, not position
  int head = 0;            ///< query head
  auto operator<=>(const RowPlace&) const = default;
};

}  // namespace attest
