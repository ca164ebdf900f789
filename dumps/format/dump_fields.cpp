// The tables of fields, and the rules that span more than one of them.
#include "dumps/format/dump_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "dumps/score_factor.h"

namespace attest {
namespace {

struct AxisText {
  std::string_view symbol, meaning;
};
constexpr std::array<AxisText, 8> kAxes{{{"N", "query positions"},
                                         {"T", "num_tokens"},
                                         {"Hq", "num_query_heads"},
                                         {"Hkv", "num_kv_heads"},
                                         {"D", "head_dim"},
                                         {"Dv", "value_dim"},
                                         {"S", "one for each span"},
                                         {"A", "scales"}}};

std::size_t index_of_axis(std::string_view symbol) {
  const auto found = std::ranges::find(kAxes, symbol, &AxisText::symbol);
  if (found == kAxes.end()) throw std::logic_error(fmt::format("dump_fields.cpp: no axis '{}'", symbol));
  return static_cast<std::size_t>(found - kAxes.begin());
}

std::string fault_of_kv_heads(const DumpInfo& dump) {
  if (dump.shape.num_query_heads % dump.shape.num_kv_heads == 0) return {};
  return fmt::format("attribute 'num_kv_heads' is {}, expected a divisor of 'num_query_heads', which is {}",
                     dump.shape.num_kv_heads, dump.shape.num_query_heads);
}

std::string fault_of_values_in_keys(const DumpInfo& dump) {
  if (dump.shape.values_in_keys == 0 || dump.shape.value_dim <= dump.shape.head_dim) return {};
  return fmt::format("attribute 'values_in_keys' is 1, expected 'value_dim', which is {}, to be at most 'head_dim', {}",
                     dump.shape.value_dim, dump.shape.head_dim);
}

std::string fault_of_positions(const SampleInfo& sample) {
  const std::vector<std::int64_t>& positions = sample.query_positions;
  if (positions.empty()) return "is empty, expected at least one position";
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0 || positions[i] >= sample.num_tokens)
      return fmt::format("entry {} is {}, expected 0 to {} (num_tokens - 1)", i, positions[i], sample.num_tokens - 1);
    if (i > 0 && positions[i] <= positions[i - 1])
      return fmt::format("entry {} is {} after {}, expected strictly ascending positions", i, positions[i],
                         positions[i - 1]);
  }
  return {};
}

std::string fault_of_spans(const SampleInfo& sample) {
  for (std::size_t i = 0; i < sample.spans.size(); ++i) {
    const TokenSpan& span = sample.spans[i];
    if (span.begin < 0 || span.begin >= span.end || span.end > sample.num_tokens)
      return fmt::format("span {} is [{}, {}), expected 0 <= begin < end <= {} (num_tokens)", i, span.begin, span.end,
                         sample.num_tokens);
  }
  return {};
}

std::string fault_of_span_labels(const SampleInfo& sample) {
  if (sample.span_labels.empty() || sample.span_labels.size() == sample.spans.size()) return {};
  return fmt::format("has {} labels, expected one for each of {} spans", sample.span_labels.size(),
                     sample.spans.size());
}

std::string fault_of_margin(const SampleInfo& sample) {
  for (std::size_t i = 0; i < sample.margin.size(); ++i)
    if (!std::isfinite(sample.margin[i]))
      return fmt::format("entry {} is {}, expected a finite margin", i, sample.margin[i]);
  return {};
}

std::string fault_of_sinks(const LayerInfo& layer) {
  for (std::size_t h = 0; h < layer.sinks.size(); ++h)
    if (!std::isfinite(layer.sinks[h]))
      return fmt::format("entry {} is {}, expected a finite logit", h, layer.sinks[h]);
  return {};
}

std::string fault_of_head_gradient(const LayerInfo& layer) {
  for (std::size_t i = 0; i < layer.head_gradient.size(); ++i)
    if (!(layer.head_gradient[i] >= 0) || std::isinf(layer.head_gradient[i]))
      return fmt::format("entry {} is {}, expected a finite number, 0 or above", i, layer.head_gradient[i]);
  return {};
}

std::string fault_of_gradient_scales(const LayerInfo& layer) {
  const std::vector<double>& scales = layer.gradient_scales;
  if (scales.empty() && std::ranges::count(layer.arrays, kOutputGradient) > 0)
    return "is empty, expected the gradients of at least one scale";
  for (std::size_t i = 0; i < scales.size(); ++i)
    if (!(scales[i] >= 0 && scales[i] <= 1) || std::ranges::count(scales, scales[i]) > 1)
      return fmt::format("entry {} of attribute 'scales' is {}, expected numbers from 0 to 1, each once", i, scales[i]);
  return {};
}

constexpr bool kOptional = true, kRequired = false;

// {name, type, shape, optional, place, meaning}; designated members follow where they apply.
const Field<DumpInfo> kDumpFields[] = {
    {"model", "string", "", kRequired, &DumpInfo::model, "\"meta-llama/Llama-3.1-8B-Instruct\""},
    {"num_layers", "int", "", kRequired, &DumpInfo::num_layers, "layers of the model; a dump may hold fewer"},
    {"num_query_heads", "int", "", kRequired, &AttentionShape::num_query_heads, "Hq"},
    {.name = "num_kv_heads",
     .type = "int",
     .shape = "",
     .optional = kRequired,
     .place = &AttentionShape::num_kv_heads,
     .meaning = "Hkv, divides Hq; G = Hq / Hkv is the GQA group",
     .fault = fault_of_kv_heads},
    {"head_dim", "int", "", kRequired, &AttentionShape::head_dim, "D, of q and k"},
    {"value_dim", "int", "", kOptional, &AttentionShape::value_dim,
     "Dv, of v; D by default (MLA: D = 576, Dv = 512, Hkv = 1)"},
    {.name = "values_in_keys",
     .type = "int",
     .shape = "",
     .optional = kOptional,
     .place = &AttentionShape::values_in_keys,
     .meaning = "1: a token's value is the first Dv channels of its key (absorbed latent attention); 0 by default",
     .range = {.min = 0, .max = 1},
     .fault = fault_of_values_in_keys},
    {"softmax_scale", "double", "", kOptional, &DumpInfo::softmax_scale, "1/sqrt(D) by default"},
    {"logit_softcap", "double", "", kOptional, &DumpInfo::logit_softcap, "c > 0: s <- c tanh(s/c) (Gemma 2)"},
    {"rope", "string", "", kOptional, &DumpInfo::rope,
     "JSON of the model's rotary parameters, so that keys can be un-rotated", "rope"},
    {"engine", "string", "", kOptional, &DumpInfo::engine, "what computed `output`: \"vllm 0.11.2\"", "engine"},
    {"kv_cache", "string", "", kOptional, &DumpInfo::kv_cache,
     "the cache that the engine says it has, as options of the selector kv_cache: \"k=fp8_e4m3,v=fp8_e4m3\"; \"\" and "
     "none: 16 bits",
     "KV cache"},
    {"source", "string", "", kOptional, &DumpInfo::source, "how it was captured, for provenance", "source"},
    {"created", "string", "", kOptional, &DumpInfo::created, "ISO 8601", "created"},
};

const Field<SampleInfo> kSampleFields[] = {
    {"task", "string", "", kRequired, &SampleInfo::task, "\"ruler/niah_multikey_3\", \"longbench/hotpotqa\", ..."},
    {"document", "string", "", kOptional, &SampleInfo::document,
     "the text that it was made of, where several samples share one"},
    {"num_tokens", "int", "", kRequired, &SampleInfo::num_tokens, "T"},
    {.name = "prompt_length",
     .type = "int",
     .shape = "",
     .optional = kOptional,
     .place = &SampleInfo::prompt_length,
     .meaning = "tokens of the prompt; the rest were decoded",
     .range = {.min = 0, .max_axis = "T"}},
    {.name = "query_positions",
     .type = "int64",
     .shape = "[N]",
     .optional = kRequired,
     .place = &SampleInfo::query_positions,
     .meaning = "position p of each query, 0 <= p < T, strictly ascending",
     .fault = fault_of_positions},
    {"tokens", "int32", "[T]", kOptional, OnDemand{}, "token ids", "token ids"},
    {.name = "spans",
     .type = "int64",
     .shape = "[S, 2]",
     .optional = kOptional,
     .place = &SampleInfo::spans,
     .meaning = "half-open ranges [begin, end) of context tokens that hold the answer (the evidence, not the reply), "
                "begin < end <= T; they may overlap",
     .fault = fault_of_spans},
    {.name = "span_labels",
     .type = "string",
     .shape = "[S]",
     .optional = kOptional,
     .place = &SampleInfo::span_labels,
     .meaning = "",
     .fault = fault_of_span_labels},
    {.name = "margin",
     .type = "float32",
     .shape = "[N]",
     .optional = kOptional,
     .place = &SampleInfo::margin,
     .meaning = "logit of answer_token minus the largest other logit, in the model's own run; finite",
     .label = "margins",
     .fault = fault_of_margin},
    {"answer_token", "int32", "[N]", kOptional, OnDemand{},
     "the token that row i should give: the known answer's, else the model's own"},
};

const Field<LayerInfo> kLayerFields[] = {
    {.name = "sliding_window",
     .type = "int",
     .shape = "",
     .optional = kOptional,
     .place = &LayerInfo::sliding_window,
     .meaning = "w > 0: the query at p sees the keys p-w+1 .. p only",
     .label = "sliding window",
     .range = {.max = std::numeric_limits<std::int64_t>::max()}},
    {"q", "", "[N, Hq, D]", kRequired, &LayerInfo::q, ""},
    {"k", "", "[Hkv, T, D]", kRequired, &LayerInfo::k, ""},
    {"v", "", "[Hkv, T, Dv]", kRequired, &LayerInfo::v, ""},
    {.name = "sinks",
     .type = "float32",
     .shape = "[Hq]",
     .optional = kOptional,
     .place = &LayerInfo::sinks,
     .meaning = "learned sink logits (gpt-oss), on the scale of the scaled scores; finite",
     .label = "learned sinks",
     .fault = fault_of_sinks},
    {.name = "head_gradient",
     .type = "float32",
     .shape = "[N, Hq]",
     .optional = kOptional,
     .place = &LayerInfo::head_gradient,
     .meaning = "what the outputs of a head, here and at earlier rows of the answer, mean for the margin of row i: "
                "sqrt(sum over i' <= i of norm2(d margin_i / d out[h, i'])^2); finite, >= 0",
     .label = "head gradients",
     .fault = fault_of_head_gradient},
    {.name = "output",
     .type = "",
     .shape = "[N, Hq, Dv]",
     .optional = kOptional,
     .place = OnDemand{},
     .meaning = "what the attention of `engine` gave for these rows, before the output projection; of an element type "
                "of its own",
     .label = "attention outputs"},
    {.name = "output_lse",
     .type = "float32",
     .shape = "[N, Hq]",
     .optional = kOptional,
     .place = OnDemand{},
     .meaning = "the engine's own log-sum-exp of these rows, a natural logarithm, learned sinks included",
     .label = "log-sum-exps"},
    {.name = "cache_scales",
     .type = "float32",
     .shape = "[2]",
     .optional = kOptional,
     .place = OnDemand{},
     .meaning = "scales of keys and of values in the engine's cache, where layers have their own; they go before the "
                "k_scale and v_scale of `kv_cache`",
     .label = "cache scales"},
    {.name = kOutputGradient.data(),
     .type = "float16",
     .shape = "[A, N, Hq, Dv]",
     .optional = kOptional,
     .place = OnDemand{},
     .meaning = "d (sum of margins) / d out with every output of the answer's rows scaled by one of its attribute "
                "`scales`, float64 [A], from 0 to 1 and each once; finite",
     .label = "output gradients",
     .fault = fault_of_gradient_scales},
    {"attention_mass", "float32", "[Hq, T]", kOptional, OnDemand{},
     "column sums of softmax over the prompt's queries (for eviction methods); its attribute `queries`, an int: of the "
     "prompt's last so many alone",
     "attention mass"},
};

}  // namespace

Axes::Axes(const AttentionShape& shape) {
  at("Hq") = shape.num_query_heads;
  at("Hkv") = shape.num_kv_heads;
  at("D") = shape.head_dim;
  at("Dv") = shape.value_dim;
}

Axes::Axes(const AttentionShape& shape, const SampleTokens& sample) : Axes(shape) {
  at("T") = sample.num_tokens;
  at("N") = static_cast<std::int64_t>(sample.query_positions.size());
  at("S") = static_cast<std::int64_t>(sample.spans.size());
}

std::int64_t& Axes::at(std::string_view symbol) { return sizes_[index_of_axis(symbol)]; }
std::int64_t Axes::at(std::string_view symbol) const { return sizes_[index_of_axis(symbol)]; }

std::vector<std::int64_t> Axes::sizes(std::string_view shape) const {
  std::vector<std::int64_t> result;
  for (const std::string_view symbol : axis_symbols(shape))
    result.push_back(symbol == "2" ? 2 : sizes_[index_of_axis(symbol)]);
  return result;
}

std::string Axes::meaning(std::string_view shape) {
  std::string text;
  for (const std::string_view symbol : axis_symbols(shape))
    text += fmt::format("{}{}", text.empty() ? "" : ", ", symbol == "2" ? "2" : kAxes[index_of_axis(symbol)].meaning);
  return text;
}

std::vector<std::string_view> axis_symbols(std::string_view shape) {
  std::vector<std::string_view> symbols;
  for (std::size_t begin = 1; begin < shape.size();) {
    const std::size_t end = shape.find_first_of(",]", begin);
    symbols.push_back(shape.substr(begin, end - begin));
    begin = end + 2;
  }
  return symbols;
}

std::span<const Field<DumpInfo>> fields_of(const DumpInfo&) { return kDumpFields; }
std::span<const Field<SampleInfo>> fields_of(const SampleInfo&) { return kSampleFields; }
std::span<const Field<LayerInfo>> fields_of(const LayerInfo&) { return kLayerFields; }

std::string fault_of_attribute(const char* name, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value >= min && value <= max) return {};
  return fmt::format("attribute '{}' is {}, expected an integer from {} to {}", name, value, min, max);
}

std::string fault_of_attribute(const char* name, double value) {
  const std::string fault = fault_of_score_factor(value);
  return fault.empty() ? "" : fmt::format("attribute '{}' {}", name, fault);
}

}  // namespace attest
