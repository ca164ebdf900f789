// DumpWriter: checks and writes the fields of the tables (dump_fields.h), and q, k and v in slabs.
#include "dumps/format/dump_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/format/field_writer.h"
#include "dumps/format/format_names.h"
#include "dumps/hdf5/float_format.h"
#include "dumps/hdf5/writer.h"

namespace attest {
namespace {

using hdf5::Extent;
using hdf5::Handle;

/// Smaller than HDF5's chunk cache of 1 MiB, so that a slab may end within a chunk.
constexpr hsize_t kChunkBytes = 256 * 1024;

void require(bool condition, const char* broken_rule) {
  if (!condition) throw std::logic_error(fmt::format("DumpWriter: {}", broken_rule));
}

hsize_t extent(std::int64_t n) { return static_cast<hsize_t>(n); }

Handle make_type(ElementType element_type) {
  const hdf5::Lock lock;
  return hdf5::make_type(element_type == ElementType::float16    ? hdf5::kFloat16
                         : element_type == ElementType::bfloat16 ? hdf5::kBfloat16
                                                                 : hdf5::kFloat32);
}

}  // namespace

struct DumpWriter::State {
  struct Tensor {
    Handle data;
    std::int64_t rows_left = 0;  ///< not yet written, along the query or token axis, summed over all KV heads
  };

  State(const std::string& target, const DumpInfo& dump, const DumpWriterOptions& how)
      : path(target), header(dump), options(how), file(target, {.overwrite = how.overwrite}) {
    if (header.shape.value_dim == 0) header.shape.value_dim = header.shape.head_dim;
  }

  std::string path;
  DumpInfo header;
  DumpWriterOptions options;
  hdf5::FileWriter file;
  Handle samples;

  SampleInfo sample;  ///< the sample that is being written
  Handle sample_group, layers_group;
  std::set<std::string> sample_names;
  std::set<int> layer_numbers;

  LayerInfo layer;  ///< the layer that is being written
  std::string layer_object;
  Handle layer_group, element_type;
  std::size_t element_bytes = 0;
  Tensor q, k, v;

  std::string sample_object() const { return fmt::format("{}: /samples/{}", path, sample.name); }
  Axes axes() const { return Axes(header.shape, sample); }

  Tensor create_tensor(const char* name, const char* axis_names, std::int64_t rows) const {
    const std::vector<std::int64_t> sizes = axes().sizes(axis_names);
    const Extent shape(sizes.begin(), sizes.end());
    hdf5::DatasetLayout layout{.written_whole = true, .gzip_level = options.gzip_level};
    if (options.gzip_level > 0)
      layout.chunk = {1, std::clamp<hsize_t>(kChunkBytes / (shape[2] * element_bytes), 1, shape[1]), shape[2]};
    return {file.create_dataset(layer_group, name, element_type.get(), shape, layout), rows};
  }

  void write_slab(Tensor& tensor, const Extent& start, const Extent& count, std::int64_t rows,
                  const std::byte* values) {
    file.write_block(tensor.data, start, count, element_type.get(), values);
    tensor.rows_left -= rows;
  }

  /// Writes values [count, row] of one KV head.
  void write_head(Tensor& tensor, int kv_head, std::int64_t first, std::int64_t count, int row,
                  const std::byte* values) {
    require(static_cast<bool>(layer_group), "values before begin_layer");
    require(kv_head >= 0 && kv_head < header.shape.num_kv_heads && first >= 0 && count >= 0 &&
                first + count <= sample.num_tokens,
            "slab of k or v out of range");
    if (count == 0) return;
    write_slab(tensor, {extent(kv_head), extent(first), 0}, {1, extent(count), extent(row)}, count, values);
  }

  void end_layer() {
    require(q.rows_left == 0 && k.rows_left == 0 && v.rows_left == 0, "a layer's q, k or v is incomplete");
    q.data.close();
    k.data.close();
    v.data.close();
    layer_group.close();
  }

  void end_sample() {
    end_layer();
    require(!sample_group || !layer_numbers.empty(), "a sample has no layer");
    layers_group.close();
    sample_group.close();
  }

  template <class T, class Owner>
  void write_array(const Handle& group, const std::string& object, const Owner& owner, std::string_view name,
                   std::span<const T> values, ElementType type, std::span<const double> scales) const {
    const auto fields = fields_of(owner);
    const auto field = std::ranges::find(fields, name, &Field<Owner>::name);
    require(field != fields.end() && std::holds_alternative<OnDemand>(field->place), "no such array");
    const std::string_view found = std::is_integral_v<T> ? "int32" : name_of(type);
    require(field->type == found || (std::is_same_v<T, float> && *field->type == '\0'), "no such array of this type");
    require(scales.empty() || name == kOutputGradient, "scales of an array that has none");
    if (field->fault != nullptr)
      if (const std::string fault = field->fault(owner); !fault.empty())
        throw UsageError(fmt::format("{}/{}: {}", object, name, fault));
    Axes known = axes();
    known.at("A") = std::ssize(scales);
    const std::vector<std::int64_t> sizes = known.sizes(field->shape);
    const Extent shape(sizes.begin(), sizes.end());
    const hsize_t expected = std::accumulate(shape.begin(), shape.end(), hsize_t{1}, std::multiplies<>());
    if (values.size() != expected)
      throw UsageError(fmt::format("{}/{}: has {} values, expected {} ({})", object, name, values.size(), expected,
                                   Axes::meaning(field->shape)));
    if constexpr (std::is_same_v<T, float>)
      if (field->type != std::string_view("float32")) {
        std::vector<std::byte> stored(values.size() * size_of(type));
        convert_from_float(type, values.data(), values.size(), stored.data());
        const Handle elements = make_type(type);
        const Handle data = file.create_dataset(group, field->name, elements.get(), shape, {.written_whole = true});
        file.write_block(data, Extent(shape.size(), 0), shape, elements.get(), stored.data());
        if (!scales.empty()) file.write_attribute(data, "scales", scales);
        return;
      }
    file.write_dataset<T>(group, field->name, values, shape);
  }
};

DumpWriter::DumpWriter(const std::string& path, const DumpInfo& header, const DumpWriterOptions& options)
    : state_(std::make_unique<State>(path, header, options)) {
  const Handle& root = state_->file.root();
  const FieldWriter fields(state_->file, root, path + ": /", state_->header, Axes(state_->header.shape));
  fields.check();
  state_->file.write_attribute(root, "format", kDumpFormat);
  state_->file.write_attribute(root, "format_version", kDumpVersion);
  fields.write();
  state_->samples = state_->file.create_group(root, "samples");
}

DumpWriter::~DumpWriter() = default;

void DumpWriter::begin_sample(const SampleInfo& sample) {
  State& s = *state_;
  s.end_sample();
  s.sample = sample;
  if (sample.name.empty() || sample.name == "." || sample.name.find('/') != std::string::npos)
    throw UsageError(fmt::format("{}: sample '{}': the name must be that of one HDF5 group", s.path, sample.name));
  const FieldWriter fields(s.file, s.sample_group, s.sample_object(), s.sample, s.axes());
  fields.check();
  require(s.sample_names.insert(sample.name).second, "a sample is written twice");
  s.layer_numbers.clear();
  s.sample_group = s.file.create_group(s.samples, sample.name);
  s.layers_group = s.file.create_group(s.sample_group, "layers");
  fields.write();
}

void DumpWriter::begin_layer(int layer, const LayerAttention& attention) {
  State& s = *state_;
  require(static_cast<bool>(s.sample_group), "begin_layer before begin_sample");
  s.end_layer();
  require(layer >= 0 && layer < s.header.num_layers, "layer number out of range");
  static_cast<LayerAttention&>(s.layer) = attention;
  s.layer_object = fmt::format("{}/layers/{}", s.sample_object(), layer);
  const FieldWriter fields(s.file, s.layer_group, s.layer_object, s.layer, s.axes());
  fields.check();
  require(s.layer_numbers.insert(layer).second, "a layer is written twice");
  s.layer_group = s.file.create_group(s.layers_group, std::to_string(layer));
  fields.write();
  s.element_type = make_type(attention.element_type);
  s.element_bytes = size_of(attention.element_type);
  const auto queries = static_cast<std::int64_t>(s.sample.query_positions.size());
  const std::int64_t rows = s.sample.num_tokens * s.header.shape.num_kv_heads;
  s.q = s.create_tensor("q", "[N, Hq, D]", queries);
  s.k = s.create_tensor("k", "[Hkv, T, D]", rows);
  s.v = s.create_tensor("v", "[Hkv, T, Dv]", rows);
}

void DumpWriter::write_q(std::int64_t first, std::int64_t count, const std::byte* values) {
  State& s = *state_;
  require(static_cast<bool>(s.layer_group), "values before begin_layer");
  require(first >= 0 && count >= 0 && first + count <= static_cast<std::int64_t>(s.sample.query_positions.size()),
          "slab of q out of range");
  if (count == 0) return;
  const AttentionShape& shape = s.header.shape;
  s.write_slab(s.q, {extent(first), 0, 0}, {extent(count), extent(shape.num_query_heads), extent(shape.head_dim)},
               count, values);
}

void DumpWriter::write_k(int kv_head, std::int64_t first, std::int64_t count, const std::byte* values) {
  state_->write_head(state_->k, kv_head, first, count, state_->header.shape.head_dim, values);
}

void DumpWriter::write_v(int kv_head, std::int64_t first, std::int64_t count, const std::byte* values) {
  state_->write_head(state_->v, kv_head, first, count, state_->header.shape.value_dim, values);
}

template <class T>
void DumpWriter::write_array(std::string_view name, std::span<const T> values, ElementType type,
                             std::span<const double> scales) {
  State& s = *state_;
  require(static_cast<bool>(s.sample_group), "an array before begin_sample");
  if (s.layer_group) {
    s.layer.arrays = {std::string(name)};
    s.layer.gradient_scales.assign(scales.begin(), scales.end());
    s.write_array(s.layer_group, s.layer_object, s.layer, name, values, type, scales);
  } else {
    s.write_array(s.sample_group, s.sample_object(), s.sample, name, values, type, scales);
  }
}

template void DumpWriter::write_array(std::string_view, std::span<const std::int32_t>, ElementType,
                                      std::span<const double>);
template void DumpWriter::write_array(std::string_view, std::span<const float>, ElementType, std::span<const double>);

void DumpWriter::finish() {
  State& s = *state_;
  s.end_sample();
  require(!s.sample_names.empty(), "finish without a sample");
  s.samples.close();
  s.file.finish();
}

}  // namespace attest
