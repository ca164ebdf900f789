// A small dump of known values: two samples of different lengths, layers with gaps, every optional part present.
#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "dumps/format/dump_writer.h"

namespace attest::test {

inline DumpInfo small_header() {
  DumpInfo info;
  info.model = "test/tiny";
  info.num_layers = 6;
  info.shape = {.num_query_heads = 6, .num_kv_heads = 2, .head_dim = 8, .value_dim = 5};
  info.softmax_scale = 0.3;
  info.logit_softcap = 50;
  info.rope = R"({"theta": 10000})";
  info.engine = "engine 1.2";
  info.kv_cache = "k=q8_0";
  info.source = "small_dump.h";
  info.created = "2025-01-02T03:04:05Z";
  return info;
}

inline std::vector<SampleInfo> small_samples() {
  SampleInfo first;
  first.name = "first";
  first.task = "ruler/niah";
  first.num_tokens = 40;
  first.prompt_length = 38;
  first.query_positions = {0, 17, 39};
  first.spans = {{3, 9}, {5, 30}};
  first.span_labels = {"needle", "answer"};
  first.arrays = {"tokens"};
  first.layers = {0, 2, 5};
  SampleInfo second;
  second.name = "second";
  second.task = "longbench";
  second.num_tokens = 23;
  second.query_positions = {22};
  second.layers = {3};
  return {first, second};
}

inline std::int64_t small_window(int layer) { return layer == 2 ? 16 : 0; }
inline ElementType small_type(int layer) {
  return layer == 2 ? ElementType::float16 : layer == 5 ? ElementType::float32 : ElementType::bfloat16;
}

/// Finite values of the type whose bits encode their place in the tensor. `tensor`: 'q', 'k' or 'v'.
inline std::vector<std::byte> small_values(char tensor, int layer, std::size_t count, ElementType type) {
  std::vector<std::byte> bytes(count * size_of(type));
  std::uint32_t state = static_cast<std::uint32_t>(tensor) * 2654435761u + static_cast<std::uint32_t>(layer) * 97u;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const float value = (static_cast<float>(state >> 8) + 1) * 0x1p-22f - 2;
    convert_from_float(type, &value, 1, bytes.data() + i * size_of(type));
  }
  return bytes;
}

inline std::vector<std::byte> small_q(const SampleInfo& sample, int layer, ElementType type) {
  return small_values('q', layer, sample.query_positions.size() * 6 * 8, type);
}
inline std::vector<std::byte> small_k(const SampleInfo& sample, int layer, ElementType type) {
  return small_values('k', layer, 2 * static_cast<std::size_t>(sample.num_tokens) * 8, type);
}
inline std::vector<std::byte> small_v(const SampleInfo& sample, int layer, ElementType type) {
  return small_values('v', layer, 2 * static_cast<std::size_t>(sample.num_tokens) * 5, type);
}
inline std::vector<std::int32_t> small_tokens(const SampleInfo& sample) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sample.num_tokens));
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}
inline std::vector<float> small_mass(const SampleInfo& sample) {
  std::vector<float> mass(6 * static_cast<std::size_t>(sample.num_tokens));
  std::iota(mass.begin(), mass.end(), 0.5f);
  return mass;
}
/// Of an engine, in layers 2 and 5, in a type of its own. Layer 5 has a log-sum-exp, too.
inline ElementType small_output_type(int layer) { return layer == 2 ? ElementType::bfloat16 : ElementType::float16; }
inline std::vector<float> small_output(const SampleInfo& sample, int layer) {
  const std::size_t count = sample.query_positions.size() * 6 * 5;
  const std::vector<std::byte> bytes = small_values('o', layer, count, small_output_type(layer));
  std::vector<float> values(count);
  convert_to_float(small_output_type(layer), bytes.data(), count, values.data());
  return values;
}
inline std::vector<float> small_lse(const SampleInfo& sample) {
  std::vector<float> lse(sample.query_positions.size() * 6);
  std::iota(lse.begin(), lse.end(), -2.5f);
  return lse;
}

/// Writes keys and values in slabs of `slab` tokens, the last slab first.
inline void write_small_dump(const std::string& path, const DumpWriterOptions& options = {}, std::int64_t slab = 1000,
                             const std::vector<SampleInfo>& samples = small_samples()) {
  DumpWriter writer(path, small_header(), options);
  for (const SampleInfo& sample : samples) {
    writer.begin_sample(sample);
    if (contains(sample.arrays, "tokens")) writer.write_array<std::int32_t>("tokens", small_tokens(sample));
    for (const int layer : sample.layers) {
      const ElementType type = small_type(layer);
      const std::int64_t tokens = sample.num_tokens;
      writer.begin_layer(layer, {.element_type = type, .sliding_window = small_window(layer)});
      const auto q = small_q(sample, layer, type);
      const auto k = small_k(sample, layer, type);
      const auto v = small_v(sample, layer, type);
      writer.write_q(0, static_cast<std::int64_t>(sample.query_positions.size()), q.data());
      for (int head = 0; head < 2; ++head) {
        for (std::int64_t end = tokens; end > 0; end -= slab) {
          const std::int64_t begin = std::max<std::int64_t>(0, end - slab);
          const auto row = static_cast<std::size_t>(head * tokens + begin) * size_of(type);
          writer.write_k(head, begin, end - begin, k.data() + row * 8);
          writer.write_v(head, begin, end - begin, v.data() + row * 5);
        }
      }
      if (layer == 0) writer.write_array<float>("attention_mass", small_mass(sample));
      if (layer == 2 || layer == 5)
        writer.write_array<float>("output", small_output(sample, layer), small_output_type(layer));
      if (layer == 5) writer.write_array<float>("output_lse", small_lse(sample));
    }
  }
  writer.finish();
}

inline std::string bytes_of(const LayerBuffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}
inline std::string bytes_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace attest::test
