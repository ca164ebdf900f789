// The JSON output of `attest inspect`.
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "dumps/inspect/inspect.h"

namespace attest {

using json = nlohmann::ordered_json;

namespace {

json finite_or_null(float value) { return std::isnan(value) ? json() : json(value); }

}  // namespace

json summary_json(const DumpReader& dump) {
  const DumpInfo& info = dump.info();
  const auto or_null = [](const std::string& text) { return text.empty() ? json() : json(text); };
  json document = {{"path", info.path},
                   {"format", "attention-dump"},
                   {"file_bytes", info.file_bytes},
                   {"model", info.model},
                   {"num_layers", info.num_layers},
                   {"num_query_heads", info.shape.num_query_heads},
                   {"num_kv_heads", info.shape.num_kv_heads},
                   {"head_dim", info.shape.head_dim},
                   {"value_dim", info.shape.value_dim},
                   {"softmax_scale", info.softmax_scale},
                   {"logit_softcap", info.logit_softcap > 0 ? json(info.logit_softcap) : json()},
                   {"rope", or_null(info.rope)},
                   {"source", or_null(info.source)},
                   {"created", or_null(info.created)},
                   {"samples", json::array()}};
  for (std::size_t i = 0; i < info.samples.size(); ++i) {
    const SampleInfo& sample = info.samples[i];
    json entry = {{"name", sample.name},
                  {"task", sample.task},
                  {"num_tokens", sample.num_tokens},
                  {"prompt_length", sample.prompt_length ? json(*sample.prompt_length) : json()},
                  {"query_positions", sample.query_positions},
                  {"has_tokens", sample.has_tokens},
                  {"value_bytes", value_bytes(dump, i)},
                  {"spans", json::array()},
                  {"layers", json::array()}};
    for (std::size_t s = 0; s < sample.spans.size(); ++s) {
      json span = {{"begin", sample.spans[s].begin}, {"end", sample.spans[s].end}};
      if (!sample.span_labels.empty()) span["label"] = sample.span_labels[s];
      entry["spans"].push_back(std::move(span));
    }
    for (const int number : sample.layers) {
      const LayerInfo& layer = dump.layer_info(i, number);
      entry["layers"].push_back({{"layer", number},
                                 {"element_type", name_of(layer.element_type)},
                                 {"value_bytes", layer.bytes()},
                                 {"storage", layer.storage},
                                 {"sliding_window", layer.sliding_window > 0 ? json(layer.sliding_window) : json()},
                                 {"sinks", layer.sinks.empty() ? json() : json(layer.sinks)},
                                 {"has_attention_mass", layer.has_attention_mass}});
    }
    document["samples"].push_back(std::move(entry));
  }
  return document;
}

json check_json(const DumpReader& dump, const DumpCheck& check) {
  json layers = json::array();
  for (const DumpCheck::Layer& layer : check.layers) {
    json entry = {{"sample", dump.info().samples[layer.sample].name},
                  {"layer", layer.check.layer},
                  {"finite", layer.check.finite()}};
    for (const auto& [name, tensor] : layer.check.tensors()) {
      json heads = json::array();
      for (const HeadFinding& finding : tensor->findings) {
        heads.push_back({{"head", finding.head},
                         {"num_nan", finding.num_nan},
                         {"num_infinite", finding.num_infinite},
                         {"first_token", finding.not_finite() ? json(finding.first_token) : json()},
                         {"all_zero", finding.all_zero}});
      }
      entry[name] = {{"minimum", finite_or_null(tensor->minimum)},
                     {"maximum", finite_or_null(tensor->maximum)},
                     {"findings", std::move(heads)},
                     {"findings_left_out", tensor->num_left_out}};
    }
    layers.push_back(std::move(entry));
  }
  return {{"bad_layers", check.num_bad_layers()}, {"layers", std::move(layers)}};
}

}  // namespace attest
