// The inputs on which kernels, selectors and studies are tested: one list, each case with its reason.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numbers>
#include <ostream>
#include <string>
#include <vector>

#include "dumps/attention_layer.h"
#include "kernels/base/kv_head.h"

namespace attest::test {

/// Pattern of the keys; queries and values are normally distributed unless stated.
enum class Pattern {
  peaked,         ///< channels of unequal width, some keys near the queries: rows with a clear maximum
  flat,           ///< tiny keys: nearly uniform softmax
  outliers,       ///< one channel of keys and values up to 60000, as float16 caches have them
  constant_keys,  ///< all keys equal: every score ties
  huge_key,       ///< one key a hundred times as long as the others
  zeros,          ///< keys and values zero: scales of quantisers underflow, outputs vanish
  ties,           ///< four distinct integer keys: many exact ties, all sums exact
};

struct Case {
  std::string name;
  int kv_heads, group, head_dim, value_dim;
  ElementType type;
  std::vector<std::int64_t> positions;  ///< of the queries, ascending; the last is the last token
  Pattern pattern = Pattern::peaked;
  double softcap = 0;
  std::int64_t window = 0;
  bool sinks = false;  ///< with learned sinks

  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.name << " (Hkv " << c.kv_heads << ", G " << c.group << ", D " << c.head_dim << ", Dv "
               << c.value_dim << ", " << name_of(c.type) << ", L up to " << c.positions.back() + 1 << ")";
  }
};

/// Lengths are on both sides of the boundaries of pages (16), groups (32) and blocks (128). Group sizes, dimensions and
/// types vary across the list.
inline const std::vector<Case>& cases() {
  constexpr auto f16 = ElementType::float16, bf16 = ElementType::bfloat16, f32 = ElementType::float32;
  static const std::vector<Case> all = {
      {"llama", 2, 4, 128, 128, bf16, {299, 383, 501}},
      {"own_heads", 2, 1, 80, 80, f32, {130, 383}},
      {"group_of_7", 1, 7, 64, 64, f16, {127, 128, 129, 254, 255, 256}},
      {"short", 1, 4, 64, 64, bf16, {0, 1, 14, 15, 16, 31, 32, 126, 127, 128, 139}},
      {"one_token", 1, 1, 64, 32, f32, {0}},
      {"latent", 1, 16, 576, 512, bf16, {170, 270}},
      {"capped", 1, 4, 96, 64, f16, {260, 411}, Pattern::peaked, 20.0},
      {"wide_keys", 1, 2, 192, 128, f32, {383, 400}},
      {"window", 1, 4, 256, 256, f16, {150, 199, 200, 333}, Pattern::peaked, 50.0, 200},
      {"short_window", 1, 2, 64, 64, bf16, {10, 63, 64, 300}, Pattern::peaked, 0.0, 64},
      {"flat", 1, 4, 64, 64, bf16, {639}, Pattern::flat},
      {"outliers", 1, 2, 64, 64, f16, {290, 391}, Pattern::outliers},
      {"constant_keys", 1, 4, 64, 64, bf16, {300}, Pattern::constant_keys},
      {"huge_key", 1, 4, 128, 128, bf16, {411}, Pattern::huge_key},
      {"zeros", 1, 2, 64, 64, f16, {300}, Pattern::zeros},
      {"ties", 1, 4, 64, 64, f32, {100, 411}, Pattern::ties},
      {"sinks", 2, 4, 64, 64, bf16, {0, 127, 300}, Pattern::peaked, 0.0, 200, true},
  };
  return all;
}

/// Random numbers that are the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {  // splitmix64
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  double uniform() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }
  double uniform(double minimum, double maximum) { return minimum + (maximum - minimum) * uniform(); }
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n)); }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

 private:
  std::uint64_t state_;
};

inline std::vector<float> keys_of(const Case& c, std::int64_t tokens, const std::vector<float>& queries,
                                  Random& random) {
  const int d = c.head_dim;
  std::vector<float> k(static_cast<std::size_t>(c.kv_heads * tokens * d));
  std::vector<double> width(static_cast<std::size_t>(d)), shift(width.size());
  for (std::size_t i = 0; i < width.size(); ++i) {
    width[i] = std::exp(0.7 * random.normal());
    shift[i] = 0.5 * random.normal();
  }
  std::vector<float> four(static_cast<std::size_t>(4 * d));
  for (float& x : four) x = static_cast<float>(random.below(5) - 2);
  for (std::int64_t t = 0; t < c.kv_heads * tokens; ++t) {
    float* key = k.data() + t * d;
    const bool near_query = random.uniform() < 0.03;
    const float* query = queries.data() + random.below(static_cast<std::int64_t>(queries.size()) / d) * d;
    const std::int64_t which = random.below(4);
    for (int i = 0; i < d; ++i) {
      const auto channel = static_cast<std::size_t>(i);
      const double wide = width[channel] * random.normal() + shift[channel];
      switch (c.pattern) {
        case Pattern::peaked:
          key[i] = static_cast<float>(near_query ? 0.4 * wide + 0.6 * query[i] : wide);
          break;
        case Pattern::flat:
          key[i] = static_cast<float>(0.02 * wide);
          break;
        case Pattern::outliers:
          key[i] = static_cast<float>(i == 3 ? random.uniform(-60000, 60000) : wide);
          break;
        case Pattern::constant_keys:
          key[i] = static_cast<float>(width[channel]);
          break;
        case Pattern::huge_key:
          key[i] = static_cast<float>(wide * (t % tokens == tokens / 3 ? 100 : 1));
          break;
        case Pattern::zeros:
          key[i] = 0;
          break;
        case Pattern::ties:
          key[i] = four[static_cast<std::size_t>(which * d + i)];
          break;
      }
    }
  }
  return k;
}

inline LayerBuffer rounded(ElementType type, const std::vector<float>& values) {
  LayerBuffer buffer;
  buffer.resize(values.size() * size_of(type));
  convert_from_float(type, values.data(), values.size(), buffer.data());
  return buffer;
}

/// Sources of the estimates that tests use, without a file: one estimate per token for every query head, and one per
/// block for every KV head.
inline const std::vector<EstimateSource>& estimate_sources() {
  static const std::vector<EstimateSource> all = {{"own.h5", "tokens", 1}, {"own.h5", "blocks", 16}};
  return all;
}

/// Random estimates: some values tie, some are -inf, the others spread like scores.
inline LayerEstimates estimates_from(const EstimateSource& source, const AttentionLayer& layer, Random& random) {
  LayerEstimates out(std::pmr::get_default_resource());
  out.source = source;
  out.in_double = source.width > 1;
  out.num_heads = source.width > 1 ? layer.shape.num_kv_heads : layer.shape.num_query_heads;
  out.query_heads_per_estimate = layer.shape.num_query_heads / out.num_heads;
  out.num_entries = (layer.num_tokens + source.width - 1) / source.width;
  const auto count = static_cast<std::size_t>(layer.num_queries() * out.num_heads * out.num_entries);
  out.values.resize(count * (out.in_double ? sizeof(double) : sizeof(float)));
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t kind = random.below(20);
    const double x = kind == 0  ? -std::numeric_limits<double>::infinity()
                     : kind < 4 ? static_cast<double>(random.below(4))
                                : 2 * random.normal();
    if (out.in_double)
      reinterpret_cast<double*>(out.values.data())[i] = x;
    else
      reinterpret_cast<float*>(out.values.data())[i] = static_cast<float>(x);
  }
  return out;
}

/// Seed of the sample on which selectors are calibrated; they are tested on the sample of seed 1.
constexpr std::uint64_t kCalibrationSeed = 99;

/// The case as a layer of a dump; `seed` gives other data of the same kind.
inline AttentionLayer make_layer(const Case& c, std::uint64_t seed = 1) {
  Random random(seed);
  AttentionLayer layer;
  layer.layer = 5;
  layer.shape = {c.kv_heads * c.group, c.kv_heads, c.head_dim, c.value_dim};
  layer.element_type = c.type;
  layer.softmax_scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  layer.logit_softcap = c.softcap;
  layer.sliding_window = c.window;
  layer.num_tokens = c.positions.back() + 1;
  layer.query_positions = c.positions;
  std::vector<float> q(c.positions.size() * static_cast<std::size_t>(layer.shape.num_query_heads * c.head_dim));
  for (std::size_t i = 0; i < q.size(); ++i) {
    q[i] = static_cast<float>(c.pattern == Pattern::ties ? random.below(3) - 1.0 : 1.3 * random.normal());
    if (c.pattern == Pattern::outliers && i % static_cast<std::size_t>(c.head_dim) == 3) q[i] *= 1e-4f;
  }
  const std::vector<float> k = keys_of(c, layer.num_tokens, q, random);
  std::vector<float> v(static_cast<std::size_t>(c.kv_heads * layer.num_tokens * c.value_dim));
  for (std::size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<float>(c.pattern == Pattern::zeros ? 0 : 0.3 + random.normal());
    if (c.pattern == Pattern::outliers && i % static_cast<std::size_t>(c.value_dim) == 5)
      v[i] = std::clamp(v[i] * 20000, -60000.0f, 60000.0f);
  }
  layer.q = rounded(c.type, q);
  layer.k = rounded(c.type, k);
  layer.v = rounded(c.type, v);
  for (int h = 0; c.sinks && h < layer.shape.num_query_heads; ++h)
    layer.sinks.push_back(static_cast<float>(2 * random.normal()));
  for (const EstimateSource& source : estimate_sources())
    layer.estimates.push_back(estimates_from(source, layer, random));
  return layer;
}

/// The layer with query n only.
inline AttentionLayer with_one_query(AttentionLayer layer, std::size_t n) {
  const auto keep = [&](LayerBuffer& values) {
    const std::size_t bytes = values.size() / layer.query_positions.size();
    std::copy_n(values.data() + n * bytes, bytes, values.data());
    values.resize(bytes);
  };
  keep(layer.q);
  for (LayerEstimates& estimates : layer.estimates) keep(estimates.values);
  layer.query_positions = {layer.query_positions[n]};
  return layer;
}

/// A KV head and the memory that it points into. All its queries see the same first key.
struct HeadData {
  std::vector<float> keys, values, queries;
  std::vector<std::int64_t> visible;
  std::vector<float> sinks;
  std::shared_ptr<std::vector<LayerEstimates>> estimates;
  int kv_head = 0;
  std::int64_t first_query = 0, first_key = 0;
  KvHead head;
};

inline std::vector<float> floats_of(ElementType type, const LayerBuffer& buffer, std::int64_t first,
                                    std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  convert_to_float(type, buffer.data() + static_cast<std::size_t>(first) * size_of(type), values.size(), values.data());
  return values;
}

inline LayerEstimates copy_of(const LayerEstimates& from) {
  LayerEstimates to(std::pmr::get_default_resource());
  to.source = from.source;
  to.num_heads = from.num_heads;
  to.query_heads_per_estimate = from.query_heads_per_estimate;
  to.num_entries = from.num_entries;
  to.in_double = from.in_double;
  to.values.resize(from.values.size());
  std::copy_n(from.values.data(), from.values.size(), to.values.data());
  return to;
}

/// Every KV head of a layer, split where queries of a sliding window have different first keys.
inline std::vector<HeadData> heads_of(const AttentionLayer& layer) {
  std::vector<HeadData> heads;
  const AttentionShape& shape = layer.shape;
  const std::int64_t d = shape.head_dim, dv = shape.value_dim, queries = layer.num_queries();
  const auto estimates = std::make_shared<std::vector<LayerEstimates>>();
  for (const LayerEstimates& of_layer : layer.estimates) estimates->push_back(copy_of(of_layer));
  const auto first_key = [&](std::int64_t n) {
    const std::int64_t p = layer.query_positions[static_cast<std::size_t>(n)];
    return layer.sliding_window > 0 ? std::max<std::int64_t>(0, p - layer.sliding_window + 1) : 0;
  };
  for (int g = 0; g < shape.num_kv_heads; ++g)
    for (std::int64_t begin = 0, end = 0; begin < queries; begin = end) {
      const std::int64_t first = first_key(begin);
      HeadData data;
      data.kv_head = g;
      data.first_query = begin;
      data.first_key = first;
      data.estimates = estimates;
      for (int h = 0; !layer.sinks.empty() && h < shape.group(); ++h)
        data.sinks.push_back(layer.sinks[static_cast<std::size_t>(g * shape.group() + h)]);
      for (end = begin; end < queries && first_key(end) == first; ++end) {
        data.visible.push_back(layer.query_positions[static_cast<std::size_t>(end)] + 1 - first);
        const std::vector<float> q = floats_of(
            layer.element_type, layer.q, (end * shape.num_query_heads + g * shape.group()) * d, shape.group() * d);
        data.queries.insert(data.queries.end(), q.begin(), q.end());
      }
      data.keys = floats_of(layer.element_type, layer.k, (g * layer.num_tokens + first) * d, data.visible.back() * d);
      data.values =
          floats_of(layer.element_type, layer.v, (g * layer.num_tokens + first) * dv, data.visible.back() * dv);
      heads.push_back(std::move(data));
    }
  for (HeadData& data : heads)  // after all moves: the pointers stay valid
    data.head = {.head_dim = shape.head_dim,
                 .value_dim = shape.value_dim,
                 .group = shape.group(),
                 .num_queries = static_cast<int>(data.visible.size()),
                 .length = data.visible.back(),
                 .keys = data.keys.data(),
                 .values = data.values.data(),
                 .queries = data.queries.data(),
                 .visible = data.visible,
                 .element_type = layer.element_type,
                 .transform = {layer.softmax_scale, layer.logit_softcap},
                 .sinks = data.sinks,
                 .layer = layer.layer,
                 .kv_head = data.kv_head,
                 .estimates = *data.estimates,
                 .first_query = data.first_query,
                 .first_key = data.first_key};
  return heads;
}

}  // namespace attest::test
