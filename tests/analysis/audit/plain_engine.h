// An engine's attention in plain loops, with the faults that engines have had: the outputs that audits are tested on.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "analysis/audit/audit_input.h"
#include "tests/cases.h"
#include "tests/kernels/kv_formats/plain_formats.h"

namespace attest::test {

/// What an engine does; by default what the dump says.
struct Engine {
  std::string keys = "native", values = "native";  ///< formats of its cache
  double key_scale = 1, value_scale = 1;
  double read_factor = 1;  ///< of stored keys, where they are read with another scale
  bool rotate = true, integer_queries = false;
  std::int64_t window = -1;    ///< -1: the dump's; 0: none
  std::int64_t next_keys = 0;  ///< keys seen after the row's own; -1: not even its own
  bool masked = true;
  bool sinks = true, softcap = true, modulo = false;
  double scale = 0;  ///< 0: the dump's
  std::int64_t cache_shift = 0, value_shift = 0;
  double turned = 0;  ///< positions that queries are rotated too far
  double theta = 10000;
  ElementType computes = ElementType::float32;  ///< probabilities are rounded to it
  std::vector<ElementType> rounds = {};         ///< of the output, one after the other
};

struct EngineOutput {
  std::vector<float> output, lse;
};

inline Row row_of(const AttentionLayer& layer, const LayerBuffer& buffer, std::int64_t row, std::int64_t channels) {
  Row values;
  for (const float x : floats_of(layer.element_type, buffer, row * channels, channels)) values.push_back(x);
  return values;
}

inline Row engine_cache_row(const AttentionLayer& layer, const Engine& engine, bool keys, const Row& x) {
  const std::string& name = keys ? engine.keys : engine.values;
  if (name == "native") return x;
  const KvRows rows{.keys = keys,
                    .channels = static_cast<int>(x.size()),
                    .shared_values = layer.shape.values_in_keys != 0 ? layer.shape.value_dim : 0,
                    .rotate = engine.rotate,
                    .element_type = layer.element_type};
  Row stored = plain_stored(name, rows, keys ? engine.key_scale : engine.value_scale, x);
  for (double& value : stored) value *= keys ? engine.read_factor : 1;
  return stored;
}

/// Pairs (i, i + D/2).
inline Row turned(const Row& q, double positions, double theta) {
  Row out = q;
  const std::size_t half = q.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = positions / std::pow(theta, static_cast<double>(i) / static_cast<double>(half));
    out[i] = q[i] * std::cos(angle) - q[i + half] * std::sin(angle);
    out[i + half] = q[i + half] * std::cos(angle) + q[i] * std::sin(angle);
  }
  return out;
}

inline EngineOutput run_engine(const AttentionLayer& layer, const Engine& engine) {
  const AttentionShape& shape = layer.shape;
  const std::int64_t tokens = layer.num_tokens, dim = shape.head_dim, value_dim = shape.value_dim;
  std::vector<std::vector<Row>> keys(static_cast<std::size_t>(shape.num_kv_heads)), values(keys.size());
  for (int g = 0; g < shape.num_kv_heads; ++g)
    for (std::int64_t j = 0; j < tokens; ++j) {
      const auto head = static_cast<std::size_t>(g);
      keys[head].push_back(engine_cache_row(layer, engine, true, row_of(layer, layer.k, g * tokens + j, dim)));
      if (shape.values_in_keys != 0)
        values[head].emplace_back(keys[head].back().begin(), keys[head].back().begin() + value_dim);
      else
        values[head].push_back(
            engine_cache_row(layer, engine, false, row_of(layer, layer.v, g * tokens + j, value_dim)));
    }
  const double scale = engine.scale == 0 ? layer.softmax_scale : engine.scale;
  const std::int64_t window = engine.window < 0 ? layer.sliding_window : engine.window;
  EngineOutput out;
  for (std::int64_t n = 0; n < layer.num_queries(); ++n)
    for (int h = 0; h < shape.num_query_heads; ++h) {
      const auto g = static_cast<std::size_t>(engine.modulo ? h % shape.num_kv_heads : h / shape.group());
      const std::int64_t p = layer.query_positions[static_cast<std::size_t>(n)];
      Row q = turned(row_of(layer, layer.q, n * shape.num_query_heads + h, dim), engine.turned, engine.theta);
      if (engine.integer_queries)
        q = plain_rotated_ggml("q8_0", {.keys = true, .channels = static_cast<int>(dim), .rotate = engine.rotate}, q);
      std::vector<std::int64_t> seen;
      for (std::int64_t j = 0; j < tokens; ++j) {
        const std::int64_t at = j - engine.cache_shift;  // the place at which the row takes it
        const bool in_window = window == 0 || at > p - window;
        if (!engine.masked || (at >= 0 && at <= p + engine.next_keys && in_window)) seen.push_back(j);
      }
      if (seen.empty()) seen.push_back(p);  // there is always a key
      Row s;
      for (const std::int64_t j : seen) {
        double dot = 0;
        for (std::size_t d = 0; d < q.size(); ++d) dot += q[d] * keys[g][static_cast<std::size_t>(j)][d];
        const double c = engine.softcap ? layer.logit_softcap : 0;
        s.push_back(c > 0 ? c * std::tanh(scale * dot / c) : scale * dot);
      }
      if (engine.sinks && !layer.sinks.empty()) s.push_back(layer.sinks[static_cast<std::size_t>(h)]);
      const Row weights = softmax(s);
      Row o(static_cast<std::size_t>(value_dim), 0.0);
      for (std::size_t i = 0; i < seen.size(); ++i) {
        const std::int64_t j = std::clamp<std::int64_t>(seen[i] + engine.value_shift, 0, tokens - 1);
        const double weight = to_type(engine.computes, weights[i]);
        for (std::size_t d = 0; d < o.size(); ++d) o[d] += weight * values[g][static_cast<std::size_t>(j)][d];
      }
      for (double x : o) {
        for (const ElementType type : engine.rounds) x = to_type(type, x);
        out.output.push_back(static_cast<float>(x));
      }
      double maximum = s[0], sum = 0;
      for (const double x : s) maximum = std::max(maximum, x);
      for (const double x : s) sum += std::exp(x - maximum);
      out.lse.push_back(static_cast<float>(maximum + std::log(sum)));
    }
  return out;
}

}  // namespace attest::test
