// Reads the metadata of a dump and checks it against the format.
#include "dumps/format/dump_metadata.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "dumps/base/text_parts.h"
#include "dumps/format/dump_fields.h"
#include "dumps/format/format_names.h"
#include "dumps/hdf5/dataset.h"

namespace attest {
namespace {

using hdf5::Dataset;
using hdf5::Group;
using hdf5::Node;

/// Fails unless the data set has the field's shape. Axes whose sizes were not known get the data set's.
void expect_shape(const Dataset& data, const char* shape, Axes& axes) {
  const std::vector<std::int64_t> expected = axes.sizes(shape);
  if (std::ranges::find(expected, -1) == expected.end()) return data.expect_shape(expected, Axes::meaning(shape));
  const bool fits = std::ranges::equal(data.shape(), expected, [](auto found, auto e) { return e < 0 || found == e; });
  if (!fits) data.fail(fmt::format("has the shape {}, expected {}", hdf5::shape_text(data.shape()), shape));
  const std::vector<std::string_view> symbols = axis_symbols(shape);
  for (std::size_t i = 0; i < symbols.size(); ++i)
    if (expected[i] < 0) axes.at(symbols[i]) = data.shape()[i];
}

/// Reads the fields of a group into Owner, in the order of their table.
template <class Owner>
class FieldReader {
 public:
  FieldReader(const Group& group, Owner& owner, Axes& axes) : group_(group), owner_(owner), axes_(axes) {}

  void read() {
    for_each_field(owner_, [&](const Field<Owner>& field, auto& value) {
      const bool is_attribute = *field.shape == '\0';
      const bool stored = is_attribute ? group_.has_attribute(field.name) : group_.contains(field.name);
      if (field.optional && !stored) return;
      if (is_attribute) {
        read_attribute(field, value);
        if (field.fault != nullptr) fail_for(group_, field.fault(owner_));
      } else {
        const Dataset data(group_.open(field.name));
        expect_shape(data, field.shape, axes_);
        read_array(data, field, value);
        if (field.fault != nullptr) fail_for(data, field.fault(owner_));
      }
    });
  }

 private:
  using F = Field<Owner>;

  static void fail_for(const Node& node, const std::string& fault) {
    if (!fault.empty()) node.fail(fault);
  }

  void read_attribute(const F& field, std::string& value) { value = group_.string_attribute(field.name); }
  void read_attribute(const F& field, double& value) {
    value = group_.positive_attribute(field.name);
    fail_for(group_, fault_of_attribute(field.name, value));
  }
  template <class Integer>
  requires std::is_assignable_v<Integer&, std::int64_t>
  void read_attribute(const F& field, Integer& value) {
    const bool by_axis = *field.range.max_axis != '\0';
    const std::int64_t max = by_axis ? axes_.at(field.range.max_axis) : field.range.max;
    const std::int64_t found = group_.integer_attribute(field.name, field.range.min, max);
    value = static_cast<Integer>(found);
    if (std::string_view(field.name) == "num_tokens") axes_.at("T") = found;
  }
  static void read_attribute(const F&, const auto&) {}

  static void read_array(const Dataset& data, const F&, std::vector<std::int64_t>& values) {
    values = data.read_integers();
  }
  static void read_array(const Dataset& data, const F&, std::vector<std::string>& values) {
    values = data.read_strings();
  }
  static void read_array(const Dataset& data, const F&, std::vector<float>& values) { values = data.read_floats(); }
  static void read_array(const Dataset& data, const F&, std::vector<TokenSpan>& spans) {
    const std::vector<std::int64_t> bounds = data.read_integers();
    for (std::size_t i = 0; i + 1 < bounds.size(); i += 2) spans.push_back({bounds[i], bounds[i + 1]});
  }
  void read_array(const Dataset& data, const F& field, const OnDemand&) {
    if (*field.type == '\0') {
      const ElementType found = data.element_type();
      if constexpr (requires { owner_.output_type; }) owner_.output_type = found;
    } else if (std::string_view(field.type).starts_with("int")) {
      data.expect_integers();
    } else if (const std::string_view found = name_of(data.element_type()); found != field.type) {
      data.fail(fmt::format("has elements of type {}, expected {}", found, field.type));
    }
    if constexpr (requires { owner_.arrays; }) owner_.arrays.push_back(field.name);
    if constexpr (requires { owner_.gradient_scales; })
      if (field.name == kOutputGradient)
        owner_.gradient_scales = data.number_list_attribute("scales", static_cast<std::size_t>(data.shape()[0]));
  }
  /// q, k or v: everything but the values.
  void read_array(const Dataset& data, const F&, TensorLocation& location) {
    const ElementType found = data.element_type();
    if constexpr (std::is_same_v<Owner, LayerInfo>) {
      if (&location == &owner_.q) owner_.element_type = found;
      if (found != owner_.element_type)
        data.fail(fmt::format("has elements of type {}, expected {} as the layer's q", name_of(found),
                              name_of(owner_.element_type)));
    }
    location = data.location();
  }
  static void read_array(const Dataset&, const F&, const auto&) {}

  const Group& group_;
  Owner& owner_;
  Axes& axes_;
};

template <class Owner>
void read_fields(const Group& group, Owner& owner, Axes& axes) {
  FieldReader<Owner>(group, owner, axes).read();
}

DumpInfo read_header(const Group& root) {
  if (!root.has_attribute("format")) root.fail("attribute 'format' is missing, expected 'attention-dump'");
  const std::string format = root.string_attribute("format");
  if (format != kDumpFormat)
    root.fail(fmt::format("attribute 'format' is '{}', expected '{}'{}", format, kDumpFormat, format_hint(format)));
  const std::int64_t version = root.integer_attribute("format_version", std::numeric_limits<std::int64_t>::min(),
                                                      std::numeric_limits<std::int64_t>::max());
  if (version != kDumpVersion)
    root.fail(fmt::format("attribute 'format_version' is {}, expected {}", version, kDumpVersion));

  DumpInfo info;
  info.path = root.file().name;
  info.file_bytes = root.file().bytes;
  info.stored_bytes = root.file().stored_bytes;
  Axes axes;
  read_fields(root, info, axes);
  if (info.shape.value_dim == 0) info.shape.value_dim = info.shape.head_dim;
  if (info.softmax_scale == 0) info.softmax_scale = 1 / std::sqrt(static_cast<double>(info.shape.head_dim));
  return info;
}

int layer_number(const Group& layers, const std::string& name, int num_layers) {
  if (const std::optional<int> number = parse_index(name, num_layers)) return *number;
  layers.fail(fmt::format("'{}' is no layer number, expected 0 to {} (num_layers - 1)", name, num_layers - 1));
}

std::map<int, LayerInfo> read_layers(const Group& group, int num_layers, const Axes& axes) {
  std::map<int, LayerInfo> result;
  const Group layers = group.group("layers");
  for (const std::string& name : layers.names()) {
    const bool looks_like_number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    Node node = layers.open(name);
    if (!looks_like_number && !node.is_group()) continue;
    const int number = layer_number(layers, name, num_layers);
    Axes of_layer = axes;
    read_fields(Group(std::move(node)), result[number], of_layer);
  }
  if (result.empty()) layers.fail("has no layer, expected at least one");
  return result;
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
    SampleInfo sample;
    sample.name = name;
    Axes axes(metadata.info.shape);
    read_fields(group, sample, axes);
    metadata.layers.push_back(read_layers(group, metadata.info.num_layers, axes));
    for (const auto& [number, layer] : metadata.layers.back()) sample.layers.push_back(number);
    metadata.info.samples.push_back(std::move(sample));
  }
  if (metadata.info.samples.empty()) samples.fail("has no sample, expected at least one");
  return metadata;
}

}  // namespace attest
