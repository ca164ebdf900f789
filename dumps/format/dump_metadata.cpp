// Reads the metadata of a dump and checks it against the format.
#include "dumps/format/dump_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "dumps/hdf5/dataset.h"

namespace attest {
namespace {

using hdf5::Dataset;
using hdf5::Group;
using hdf5::Node;

int count_attribute(const Node& node, const char* name) {
  return static_cast<int>(node.integer_attribute(name, 1, kLargestCount));
}

std::string optional_string(const Node& node, const char* name) {
  return node.has_attribute(name) ? node.string_attribute(name) : std::string();
}

/// A factor or bound of the scores. The GPU computes scores in float32.
double score_attribute(const Group& root, const char* name) {
  constexpr double kLeast = std::numeric_limits<float>::min(), kMost = std::numeric_limits<float>::max();
  const double value = root.positive_attribute(name);
  if (value < kLeast || value > kMost)
    root.fail(fmt::format("attribute '{}' is {:g}, expected a number that float32 holds, {:.2g} to {:.2g}", name, value,
                          kLeast, kMost));
  return value;
}

DumpInfo read_header(const Group& root) {
  if (!root.has_attribute("format")) root.fail("attribute 'format' is missing, expected 'attention-dump'");
  const std::string format = root.string_attribute("format");
  if (format != "attention-dump") {
    root.fail(fmt::format(
        "attribute 'format' is '{}', expected 'attention-dump'{}", format,
        format == "attention-study" ? " (this is a results file of `attest run`, for `attest figures`)" : ""));
  }
  const std::int64_t version = root.integer_attribute("format_version", std::numeric_limits<std::int64_t>::min(),
                                                      std::numeric_limits<std::int64_t>::max());
  if (version != 1) root.fail(fmt::format("attribute 'format_version' is {}, expected 1", version));

  DumpInfo info;
  info.path = root.file().name;
  info.file_bytes = root.file().bytes;
  info.stored_bytes = root.file().stored_bytes;
  info.model = root.string_attribute("model");
  info.num_layers = count_attribute(root, "num_layers");
  info.shape.num_query_heads = count_attribute(root, "num_query_heads");
  info.shape.num_kv_heads = count_attribute(root, "num_kv_heads");
  info.shape.head_dim = count_attribute(root, "head_dim");
  info.shape.value_dim = root.has_attribute("value_dim") ? count_attribute(root, "value_dim") : info.shape.head_dim;
  if (info.shape.num_query_heads % info.shape.num_kv_heads != 0) {
    root.fail(fmt::format("attribute 'num_kv_heads' is {}, expected a divisor of 'num_query_heads', which is {}",
                          info.shape.num_kv_heads, info.shape.num_query_heads));
  }
  info.softmax_scale = root.has_attribute("softmax_scale") ? score_attribute(root, "softmax_scale")
                                                           : 1 / std::sqrt(static_cast<double>(info.shape.head_dim));
  if (root.has_attribute("logit_softcap")) info.logit_softcap = score_attribute(root, "logit_softcap");
  info.rope = optional_string(root, "rope");
  info.source = optional_string(root, "source");
  info.created = optional_string(root, "created");
  return info;
}

std::vector<std::int64_t> read_query_positions(const Group& group, std::int64_t num_tokens) {
  const Dataset data(group.open("query_positions"));
  if (data.shape().size() != 1)
    data.fail(fmt::format("has the shape {}, expected [N]", hdf5::shape_text(data.shape())));
  if (data.shape()[0] == 0) data.fail("is empty, expected at least one position");
  std::vector<std::int64_t> positions = data.read_integers();
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0 || positions[i] >= num_tokens) {
      data.fail(fmt::format("entry {} is {}, expected 0 to {} (num_tokens - 1)", i, positions[i], num_tokens - 1));
    }
    if (i > 0 && positions[i] <= positions[i - 1]) {
      data.fail(fmt::format("entry {} is {} after {}, expected strictly ascending positions", i, positions[i],
                            positions[i - 1]));
    }
  }
  return positions;
}

std::vector<TokenSpan> read_spans(const Group& group, std::int64_t num_tokens) {
  const Dataset data(group.open("spans"));
  if (data.shape().size() != 2 || data.shape()[1] != 2) {
    data.fail(fmt::format("has the shape {}, expected [S, 2]", hdf5::shape_text(data.shape())));
  }
  const std::vector<std::int64_t> values = data.read_integers();
  std::vector<TokenSpan> spans;
  for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
    const TokenSpan span{values[i], values[i + 1]};
    if (span.begin < 0 || span.begin >= span.end || span.end > num_tokens) {
      data.fail(fmt::format("span {} is [{}, {}), expected 0 <= begin < end <= {} (num_tokens)", i / 2, span.begin,
                            span.end, num_tokens));
    }
    spans.push_back(span);
  }
  return spans;
}

std::vector<std::string> read_span_labels(const Group& group, std::size_t num_spans) {
  const Dataset data(group.open("span_labels"));
  const std::int64_t expected[]{static_cast<std::int64_t>(num_spans)};
  data.expect_shape(expected, "one for each span");
  return data.read_strings();
}

/// Opens a tensor and checks everything but its values.
Dataset open_tensor(const Group& group, const char* name, const std::vector<std::int64_t>& shape, const char* meaning,
                    std::optional<ElementType>& type) {
  Dataset data(group.open(name));
  data.expect_shape(shape, meaning);
  const ElementType found = data.element_type();
  if (type && *type != found) {
    data.fail(fmt::format("has elements of type {}, expected {} as the layer's q", name_of(found), name_of(*type)));
  }
  type = found;
  return data;
}

const char* name_of_storage(hdf5::Storage storage) {
  switch (storage) {
    case hdf5::Storage::contiguous:
      return "contiguous";
    case hdf5::Storage::compact:
      return "compact";
    case hdf5::Storage::chunked:
      return "chunked";
    case hdf5::Storage::gzip:
      return "gzip";
  }
  return "";
}

std::vector<float> read_sinks(const Group& group, int num_query_heads) {
  const Dataset data(group.open("sinks"));
  data.expect_shape(std::vector<std::int64_t>{num_query_heads}, "num_query_heads");
  std::vector<float> sinks = data.read_floats();
  for (std::size_t h = 0; h < sinks.size(); ++h)
    if (!std::isfinite(sinks[h])) data.fail(fmt::format("entry {} is {}, expected a finite logit", h, sinks[h]));
  return sinks;
}

LayerInfo read_layer_info(const Group& group, const AttentionShape& shape, const SampleInfo& sample) {
  LayerInfo layer;
  if (group.has_attribute("sliding_window")) {
    layer.sliding_window = group.integer_attribute("sliding_window", 1, std::numeric_limits<std::int64_t>::max());
  }
  const auto num_queries = static_cast<std::int64_t>(sample.query_positions.size());
  std::optional<ElementType> type;
  const Dataset q = open_tensor(group, "q", {num_queries, shape.num_query_heads, shape.head_dim},
                                "query positions, num_query_heads, head_dim", type);
  const Dataset k = open_tensor(group, "k", {shape.num_kv_heads, sample.num_tokens, shape.head_dim},
                                "num_kv_heads, num_tokens, head_dim", type);
  const Dataset v = open_tensor(group, "v", {shape.num_kv_heads, sample.num_tokens, shape.value_dim},
                                "num_kv_heads, num_tokens, value_dim", type);
  layer.element_type = *type;
  layer.q = q.location();
  layer.k = k.location();
  layer.v = v.location();
  layer.storage = name_of_storage(std::max({q.storage(), k.storage(), v.storage()}));
  if (group.contains("sinks")) layer.sinks = read_sinks(group, shape.num_query_heads);
  if (group.contains("attention_mass")) {
    const Dataset mass(group.open("attention_mass"));
    mass.expect_shape(std::vector<std::int64_t>{shape.num_query_heads, sample.num_tokens},
                      "num_query_heads, num_tokens");
    if (const ElementType type_of_mass = mass.element_type(); type_of_mass != ElementType::float32) {
      mass.fail(fmt::format("has elements of type {}, expected float32", name_of(type_of_mass)));
    }
    layer.has_attention_mass = true;
  }
  return layer;
}

int layer_number(const Group& layers, const std::string& name, int num_layers) {
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool decimal = error == std::errc() && end == name.data() + name.size() && std::to_string(number) == name;
  if (!decimal || number < 0 || number >= num_layers) {
    layers.fail(fmt::format("'{}' is no layer number, expected 0 to {} (num_layers - 1)", name, num_layers - 1));
  }
  return number;
}

std::map<int, LayerInfo> read_layers(const Group& group, const DumpInfo& info, const SampleInfo& sample) {
  std::map<int, LayerInfo> result;
  const Group layers = group.group("layers");
  for (const std::string& name : layers.names()) {
    const bool looks_like_number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    Node node = layers.open(name);
    if (!looks_like_number && !node.is_group()) continue;
    const int number = layer_number(layers, name, info.num_layers);
    result.emplace(number, read_layer_info(Group(std::move(node)), info.shape, sample));
  }
  if (result.empty()) layers.fail("has no layer, expected at least one");
  return result;
}

SampleInfo read_sample(const std::string& name, const Group& group) {
  SampleInfo sample;
  sample.name = name;
  sample.task = group.string_attribute("task");
  sample.num_tokens = group.integer_attribute("num_tokens", 1, kLargestCount);
  if (group.has_attribute("prompt_length")) {
    sample.prompt_length = group.integer_attribute("prompt_length", 0, sample.num_tokens);
  }
  sample.query_positions = read_query_positions(group, sample.num_tokens);
  if (group.contains("tokens")) {
    const Dataset tokens(group.open("tokens"));
    tokens.expect_shape(std::vector<std::int64_t>{sample.num_tokens}, "num_tokens");
    tokens.expect_integers();
    sample.has_tokens = true;
  }
  if (group.contains("spans")) sample.spans = read_spans(group, sample.num_tokens);
  if (group.contains("span_labels")) sample.span_labels = read_span_labels(group, sample.spans.size());
  return sample;
}

}  // namespace

DumpMetadata read_dump_metadata(const std::shared_ptr<const hdf5::OpenFile>& file) {
  const Group root = hdf5::root_of(file);
  DumpMetadata metadata{read_header(root), {}};
  const Group samples = root.group("samples");
  for (const std::string& name : samples.names()) {
    Node node = samples.open(name);
    if (!node.is_group()) continue;
    const Group group(std::move(node));
    SampleInfo sample = read_sample(name, group);
    metadata.layers.push_back(read_layers(group, metadata.info, sample));
    for (const auto& [number, layer] : metadata.layers.back()) sample.layers.push_back(number);
    metadata.info.samples.push_back(std::move(sample));
  }
  if (metadata.info.samples.empty()) samples.fail("has no sample, expected at least one");
  return metadata;
}

}  // namespace attest
