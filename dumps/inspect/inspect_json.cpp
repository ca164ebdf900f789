// The JSON output of `attest inspect`.
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "dumps/base/json_numbers.h"
#include "dumps/format/dump_fields.h"
#include "dumps/format/format_names.h"
#include "dumps/inspect/inspect.h"

namespace attest {

namespace {

/// Adds the fields of a DumpInfo, SampleInfo or LayerInfo: null where an optional one is missing, "has_NAME" for an
/// array that is read on demand. Spans and tensors are not among them.
template <class Owner>
void add_fields(const Owner& owner, Json& document) {
  for_each_field(owner, [&](const Field<Owner>& field, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, OnDemand>) {
      if constexpr (requires { owner.arrays; })
        document[std::string("has_") + field.name] = contains(owner.arrays, field.name);
    } else if constexpr (std::is_same_v<Value, std::optional<std::int64_t>>) {
      document[field.name] = value ? Json(*value) : Json();
    } else if constexpr (std::is_arithmetic_v<Value>) {
      document[field.name] = field.optional && value == 0 ? Json() : Json(value);
    } else if constexpr (std::is_same_v<Value, std::string> || std::is_same_v<Value, std::vector<std::int64_t>> ||
                         std::is_same_v<Value, std::vector<float>>) {
      document[field.name] = field.optional && value.empty() ? Json() : Json(value);
    }
  });
}

}  // namespace

Json summary_json(const DumpReader& dump) {
  const DumpInfo& info = dump.info();
  Json document = {{"path", info.path}, {"format", kDumpFormat}, {"file_bytes", info.file_bytes}};
  add_fields(info, document);
  document["samples"] = Json::array();
  for (std::size_t i = 0; i < info.samples.size(); ++i) {
    const SampleInfo& sample = info.samples[i];
    Json entry = {{"name", sample.name}};
    add_fields(sample, entry);
    entry["value_bytes"] = value_bytes(dump, i);
    entry["spans"] = Json::array();
    entry["layers"] = Json::array();
    for (std::size_t s = 0; s < sample.spans.size(); ++s) {
      Json span = {{"begin", sample.spans[s].begin}, {"end", sample.spans[s].end}};
      if (!sample.span_labels.empty()) span["label"] = sample.span_labels[s];
      entry["spans"].push_back(std::move(span));
    }
    for (const int number : sample.layers) {
      const LayerInfo& layer = dump.layer_info(i, number);
      Json fields = {{"layer", number},
                     {"element_type", name_of(layer.element_type)},
                     {"value_bytes", layer.bytes()},
                     {"storage", name_of(layer.storage())}};
      add_fields(layer, fields);
      if (contains(layer.arrays, "output")) fields["output_type"] = name_of(layer.output_type);
      entry["layers"].push_back(std::move(fields));
    }
    document["samples"].push_back(std::move(entry));
  }
  return document;
}

Json check_json(const DumpReader& dump, const DumpCheck& check) {
  Json layers = Json::array();
  for (const DumpCheck::Layer& layer : check.layers) {
    Json entry = {{"sample", dump.info().samples[layer.sample].name},
                  {"layer", layer.check.layer},
                  {"finite", layer.check.finite() && layer.check.bad_array.empty()}};
    if (!layer.check.bad_array.empty()) entry["bad_array"] = layer.check.bad_array;
    if (dump.info().shape.values_in_keys != 0) {
      const std::optional<OtherValue>& other = layer.check.other_value;
      entry["value_not_in_key"] = other ? Json{{"head", other->head}, {"token", other->token}} : Json();
    }
    for (const auto& [name, tensor] : layer.check.tensors()) {
      Json heads = Json::array();
      for (const HeadFinding& finding : tensor->findings) {
        heads.push_back({{"head", finding.head},
                         {"num_nan", finding.num_nan},
                         {"num_infinite", finding.num_infinite},
                         {"first_token", finding.not_finite() ? Json(finding.first_token) : Json()},
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
