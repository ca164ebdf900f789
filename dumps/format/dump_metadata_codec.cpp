// Encodes dump metadata as CBOR, which keeps doubles exact and allows any bytes in strings.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "dumps/format/dump_metadata.h"

namespace attest {

using nlohmann::json;

static void to_json(json& j, const TokenSpan& span) { j = json::array({span.begin, span.end}); }
static void from_json(const json& j, TokenSpan& span) { span = {j.at(0), j.at(1)}; }

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AttentionShape, num_query_heads, num_kv_heads, head_dim, value_dim)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorLocation, file_offset, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayerInfo, element_type, sliding_window, sinks, has_attention_mass, q, k, v, storage)

static void to_json(json& j, const SampleInfo& s) {
  j = json::array({s.name, s.task, s.num_tokens, s.prompt_length.value_or(-1), s.query_positions, s.spans,
                   s.span_labels, s.has_tokens, s.layers});
}

static void from_json(const json& j, SampleInfo& s) {
  j.at(0).get_to(s.name);
  j.at(1).get_to(s.task);
  j.at(2).get_to(s.num_tokens);
  if (const auto prompt_length = j.at(3).get<std::int64_t>(); prompt_length >= 0) s.prompt_length = prompt_length;
  j.at(4).get_to(s.query_positions);
  j.at(5).get_to(s.spans);
  j.at(6).get_to(s.span_labels);
  j.at(7).get_to(s.has_tokens);
  j.at(8).get_to(s.layers);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DumpInfo, path, file_bytes, stored_bytes, model, num_layers, shape, softmax_scale,
                                   logit_softcap, rope, source, created, samples)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DumpMetadata, info, layers)

std::string encode(const DumpMetadata& metadata) {
  std::string bytes;
  json::to_cbor(json(metadata), bytes);
  return bytes;
}

DumpMetadata decode(const std::string& bytes) { return json::from_cbor(bytes).get<DumpMetadata>(); }

}  // namespace attest
