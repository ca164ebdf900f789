// The text output of `attest inspect`.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <type_traits>
#include <utility>

#include "dumps/base/byte_size.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "dumps/format/dump_fields.h"
#include "dumps/inspect/inspect.h"
#include "dumps/inspect/text_table.h"

namespace attest {
namespace {

/// Groups layer numbers by the result of `describe`.
template <class Describe>
std::map<std::string, std::vector<std::int64_t>> group_layers(const DumpReader& dump, std::size_t sample,
                                                              Describe describe) {
  std::map<std::string, std::vector<std::int64_t>> groups;
  for (const int layer : dump.info().samples[sample].layers) {
    groups[describe(dump.layer_info(sample, layer))].push_back(layer);
  }
  return groups;
}

/// "bfloat16", or "bfloat16 (layers 0-3), float32 (layers 4)" when they differ.
template <class Describe>
std::string layers_text(const DumpReader& dump, std::size_t sample, Describe describe) {
  const auto groups = group_layers(dump, sample, describe);
  if (groups.size() == 1) return groups.begin()->first;
  std::string text;
  for (const auto& [what, layers] : groups) {
    text += fmt::format("{}{} (layers {})", text.empty() ? "" : ", ", what, ranges_text(layers));
  }
  return text;
}

/// The text is cut, because rotary parameters may be long tables; --json prints all.
std::string clipped(std::string text) {
  constexpr std::size_t kMax = 240;
  if (text.size() <= kMax) return text;
  return fmt::format("{} ... ({} bytes in all)", cut_text(text, kMax), text.size());
}

/// A number or text in one line; "" for what is missing and for arrays.
std::string value_text(const std::string& text) { return clipped(printable(text)); }
std::string value_text(std::int64_t value) { return value == 0 ? "" : std::to_string(value); }
std::string value_text(int value) { return value_text(std::int64_t{value}); }
std::string value_text(double value) { return value == 0 ? "" : fmt::format("{:g}", value); }
std::string value_text(const auto&) { return {}; }

/// The number or text of a field with a label, or the label of an array; "" for what is missing.
template <class Owner>
std::string field_text(const Owner& owner, const Field<Owner>& field) {
  std::string text;
  visit_field(owner, field, [&](const Field<Owner>&, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    if (*field.label == '\0') return;
    if constexpr (std::is_same_v<Value, OnDemand>) {
      if constexpr (requires { owner.arrays; }) text = contains(owner.arrays, field.name) ? field.label : "";
    } else if constexpr (std::is_same_v<Value, std::vector<float>>) {
      text = value.empty() ? "" : field.label;
    } else {
      text = value_text(value);
    }
  });
  return text;
}

std::string header_text(const DumpInfo& info) {
  const AttentionShape& shape = info.shape;
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<13}{}\n", name, value);
  };
  line("model", fmt::format("{}, {}", printable(info.model), counted(info.num_layers, "layer")));
  line("attention",
       fmt::format("{}, {} (groups of {}), head_dim {}{}", counted(shape.num_query_heads, "query head"),
                   counted(shape.num_kv_heads, "KV head"), shape.group(), shape.head_dim,
                   shape.value_dim == shape.head_dim ? "" : fmt::format(", value_dim {}", shape.value_dim)) +
           (shape.values_in_keys != 0 ? ": the first channels of the keys" : ""));
  const double standard_scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  const bool is_standard = std::abs(info.softmax_scale - standard_scale) <= 1e-6 * standard_scale;
  line("scale", fmt::format("{:.7g}{}", info.softmax_scale, is_standard ? " = 1/sqrt(head_dim)" : ""));
  line("soft-cap", info.logit_softcap > 0 ? fmt::format("{:g}", info.logit_softcap) : "none");
  for (const Field<DumpInfo>& field : fields_of(info))
    if (const std::string found = field_text(info, field); !found.empty()) line(field.label, found);
  return text;
}

std::string spans_text(const SampleInfo& sample) {
  constexpr std::size_t kMax = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(sample.spans.size(), kMax); ++i) {
    const TokenSpan& span = sample.spans[i];
    text += fmt::format("{}[{}, {})", i == 0 ? "" : ", ", span.begin, span.end);
    if (!sample.span_labels.empty()) text += " " + printable(sample.span_labels[i]);
  }
  if (sample.spans.size() > kMax) text += fmt::format(", ... ({} in all)", sample.spans.size());
  return text;
}

std::string finding_text(const HeadFinding& finding) {
  if (finding.all_zero) return "every value is zero";
  return fmt::format("{} NaN, {} infinite, the first at token {}", finding.num_nan, finding.num_infinite,
                     finding.first_token);
}

}  // namespace

std::string ranges_text(const std::vector<std::int64_t>& numbers, std::size_t max_ranges) {
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < numbers.size(); ++ranges) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (ranges == max_ranges) return text + fmt::format(", ... ({} in all)", numbers.size());
    if (i > 0) text += ", ";
    text += i == last ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string float_text(float value) { return std::isnan(value) ? "-" : fmt::format("{:.5g}", value); }

std::string summary_text(const DumpReader& dump) {
  const DumpInfo& info = dump.info();
  std::string text =
      fmt::format("{}: attention dump, {}\n{}\n", info.path, byte_size_text(info.file_bytes), header_text(info));
  TextTable table(
      {"sample", "task", "tokens", "prompt", "queries", "at positions", "layers", "type", "q+k+v", "storage"});
  std::string notes;
  for (std::size_t i = 0; i < info.samples.size(); ++i) {
    const SampleInfo& sample = info.samples[i];
    const std::vector<std::int64_t> layers(sample.layers.begin(), sample.layers.end());
    table.add({printable(sample.name), printable(sample.task), std::to_string(sample.num_tokens),
               sample.prompt_length ? std::to_string(*sample.prompt_length) : "-",
               std::to_string(sample.query_positions.size()), ranges_text(sample.query_positions, 3),
               ranges_text(layers),
               layers_text(dump, i, [](const LayerInfo& l) { return std::string(name_of(l.element_type)); }),
               byte_size_text(value_bytes(dump, i)),
               layers_text(dump, i, [](const LayerInfo& l) { return std::string(name_of(l.storage())); })});
    const auto note = [&](const char* what, const std::string& value) {
      notes += fmt::format("{}: {} {}\n", printable(sample.name), what, value);
    };
    if (!sample.spans.empty()) note("spans", spans_text(sample));
    for (const Field<SampleInfo>& field : fields_of(sample))
      if (const std::string found = field_text(sample, field); !found.empty()) note("has", found);
    for (const Field<LayerInfo>& field : fields_of(LayerInfo())) {
      if (*field.label == '\0') continue;
      const std::string found = layers_text(dump, i, [&](const LayerInfo& layer) {
        const std::string of_layer = field_text(layer, field);
        return of_layer.empty() ? "none" : of_layer;
      });
      if (found != "none") note(*field.shape == '\0' ? field.label : "has", found);
    }
  }
  return text + table.text() + (notes.empty() ? "" : "\n" + notes);
}

std::string check_text(const DumpReader& dump, const DumpCheck& check) {
  TextTable ranges({"sample", "layer", "q from", "to", "k from", "to", "v from", "to"});
  std::string findings;
  for (const DumpCheck::Layer& layer : check.layers) {
    const std::string sample = printable(dump.info().samples[layer.sample].name);
    std::vector<std::string> row{sample, std::to_string(layer.check.layer)};
    for (const auto& [name, tensor] : layer.check.tensors()) {
      row.push_back(float_text(tensor->minimum));
      row.push_back(float_text(tensor->maximum));
      for (const HeadFinding& finding : tensor->findings) {
        findings += fmt::format("{}, layer {}, {}, head {}: {}\n", sample, layer.check.layer, name, finding.head,
                                finding_text(finding));
      }
      if (tensor->num_left_out > 0)
        findings += fmt::format("{}, layer {}, {}: {}\n", sample, layer.check.layer, name,
                                counted(static_cast<std::int64_t>(tensor->num_left_out), "more head"));
    }
    if (!layer.check.bad_array.empty()) findings += fmt::format("{}, {}\n", sample, layer.check.bad_array);
    if (layer.check.other_value) findings += fmt::format("{}, {}\n", sample, other_value_text(layer.check));
    ranges.add(std::move(row));
  }
  const std::int64_t bad = check.num_bad_layers();
  return fmt::format("range of the finite values\n{}\n{}{} of {} layers hold {} ({} checked)\n", ranges.text(),
                     findings, bad == 0 ? "none" : std::to_string(bad), check.layers.size(), kinds_of_bad_values(dump),
                     byte_size_text(value_bytes(dump)));
}

}  // namespace attest
