// DumpWriter: checks the format's rules and writes q, k and v in slabs.
#include "dumps/format/dump_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "dumps/base/error.h"
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

/// HDF5 type of an element: little endian; sign, exponent, mantissa.
Handle make_type(ElementType element_type) {
  const hdf5::Lock lock;
  Handle type(H5Tcopy(H5T_IEEE_F32LE));
  if (element_type == ElementType::float32) return type;
  const bool half = element_type == ElementType::float16;
  const std::size_t mantissa_bits = half ? 10 : 7;
  H5Tset_fields(type.get(), 15, mantissa_bits, 15 - mantissa_bits, 0, mantissa_bits);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), half ? 15 : 127);
  return type;
}

void check_header(const std::string& path, const DumpInfo& header) {
  const AttentionShape& shape = header.shape;
  if (header.num_layers < 1 || shape.num_query_heads < 1 || shape.num_kv_heads < 1 || shape.head_dim < 1 ||
      shape.value_dim < 1) {
    throw UsageError(fmt::format("{}: a dump needs counts of layers, heads and dimensions above 0", path));
  }
  if (shape.num_query_heads % shape.num_kv_heads != 0) {
    throw UsageError(
        fmt::format("{}: {} KV heads do not divide {} query heads", path, shape.num_kv_heads, shape.num_query_heads));
  }
  const auto is_absent_or_read = [](double x) {  // written so that NaN fails
    return x == 0 || (x >= std::numeric_limits<float>::min() && x <= std::numeric_limits<float>::max());
  };
  if (!is_absent_or_read(header.softmax_scale) || !is_absent_or_read(header.logit_softcap)) {
    throw UsageError(fmt::format("{}: softmax scale {} and soft-cap {} must be 0 or in float32's range above 0", path,
                                 header.softmax_scale, header.logit_softcap));
  }
}

void check_sample(const std::string& path, const SampleInfo& sample, std::size_t num_tokens_given) {
  const auto fail = [&](std::string_view what) {
    throw UsageError(fmt::format("{}: sample '{}': {}", path, sample.name, what));
  };
  const std::int64_t tokens = sample.num_tokens;
  if (sample.name.empty() || sample.name == "." || sample.name.find('/') != std::string::npos) {
    fail("the name must be that of one HDF5 group");
  }
  if (tokens < 1) fail(fmt::format("num_tokens is {}, expected at least 1", tokens));
  if (sample.query_positions.empty()) fail("has no query position");
  std::int64_t previous = -1;
  for (const std::int64_t position : sample.query_positions) {
    if (position <= previous || position >= tokens) {
      fail(fmt::format("query position {} after {}, expected ascending ones below {}", position, previous, tokens));
    }
    previous = position;
  }
  for (const TokenSpan& span : sample.spans) {
    if (span.begin < 0 || span.begin >= span.end || span.end > tokens) {
      fail(fmt::format("span [{}, {}), expected 0 <= begin < end <= {}", span.begin, span.end, tokens));
    }
  }
  if (!sample.span_labels.empty() && sample.span_labels.size() != sample.spans.size()) {
    fail(fmt::format("{} span labels for {} spans", sample.span_labels.size(), sample.spans.size()));
  }
  if (const auto prompt = sample.prompt_length; prompt && (*prompt < 0 || *prompt > tokens)) {
    fail(fmt::format("prompt_length is {}, expected 0 to {}", *prompt, tokens));
  }
  if (num_tokens_given != 0 && num_tokens_given != static_cast<std::size_t>(tokens)) {
    fail(fmt::format("{} token ids for {} tokens", num_tokens_given, tokens));
  }
}

}  // namespace

struct DumpWriter::State {
  struct Tensor {
    Handle data;
    std::int64_t rows_left = 0;  ///< not yet written, along the query or token axis, summed over all KV heads
  };

  State(const std::string& target, const DumpInfo& dump, const DumpWriterOptions& how)
      : path(target), header(dump), options(how), file(target, {.overwrite = how.overwrite}) {}

  std::string path;
  DumpInfo header;
  DumpWriterOptions options;
  hdf5::FileWriter file;
  Handle samples;

  SampleInfo sample;  ///< the sample that is being written
  Handle sample_group, layers_group;
  std::set<std::string> sample_names;
  std::set<int> layer_numbers;

  Handle layer_group, element_type;
  std::size_t element_bytes = 0;
  Tensor q, k, v;

  Tensor create_tensor(const char* name, const Extent& shape, std::int64_t rows) const {
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

  void write_header() const {
    const Handle& root = file.root();
    file.write_attribute(root, "format", "attention-dump");
    file.write_attribute(root, "format_version", 1);
    file.write_attribute(root, "model", header.model);
    file.write_attribute(root, "num_layers", header.num_layers);
    file.write_attribute(root, "num_query_heads", header.shape.num_query_heads);
    file.write_attribute(root, "num_kv_heads", header.shape.num_kv_heads);
    file.write_attribute(root, "head_dim", header.shape.head_dim);
    file.write_attribute(root, "value_dim", header.shape.value_dim);
    if (header.softmax_scale > 0) file.write_attribute(root, "softmax_scale", header.softmax_scale);
    if (header.logit_softcap > 0) file.write_attribute(root, "logit_softcap", header.logit_softcap);
    if (!header.rope.empty()) file.write_attribute(root, "rope", header.rope);
    if (!header.source.empty()) file.write_attribute(root, "source", header.source);
    if (!header.created.empty()) file.write_attribute(root, "created", header.created);
  }

  void write_sample(std::span<const std::int32_t> tokens) const {
    file.write_attribute(sample_group, "task", sample.task);
    file.write_attribute(sample_group, "num_tokens", sample.num_tokens);
    if (sample.prompt_length) file.write_attribute(sample_group, "prompt_length", *sample.prompt_length);
    file.write_dataset<std::int64_t>(sample_group, "query_positions", sample.query_positions,
                                     {sample.query_positions.size()});
    if (!tokens.empty()) file.write_dataset<std::int32_t>(sample_group, "tokens", tokens, {tokens.size()});
    if (sample.spans.empty()) return;
    std::vector<std::int64_t> bounds;
    for (const TokenSpan& span : sample.spans) bounds.insert(bounds.end(), {span.begin, span.end});
    file.write_dataset<std::int64_t>(sample_group, "spans", bounds, {sample.spans.size(), 2});
    if (!sample.span_labels.empty()) file.write_dataset(sample_group, "span_labels", sample.span_labels);
  }
};

DumpWriter::DumpWriter(const std::string& path, const DumpInfo& header, const DumpWriterOptions& options) {
  check_header(path, header);
  state_ = std::make_unique<State>(path, header, options);
  state_->write_header();
  state_->samples = state_->file.create_group(state_->file.root(), "samples");
}

DumpWriter::~DumpWriter() = default;

void DumpWriter::begin_sample(const SampleInfo& sample, std::span<const std::int32_t> tokens) {
  State& s = *state_;
  s.end_sample();
  check_sample(s.path, sample, tokens.size());
  require(s.sample_names.insert(sample.name).second, "a sample is written twice");
  s.sample = sample;
  s.layer_numbers.clear();
  s.sample_group = s.file.create_group(s.samples, sample.name);
  s.layers_group = s.file.create_group(s.sample_group, "layers");
  s.write_sample(tokens);
}

void DumpWriter::begin_layer(int layer, ElementType element_type, std::int64_t sliding_window) {
  State& s = *state_;
  require(static_cast<bool>(s.sample_group), "begin_layer before begin_sample");
  s.end_layer();
  require(layer >= 0 && layer < s.header.num_layers && sliding_window >= 0, "layer number or window out of range");
  require(s.layer_numbers.insert(layer).second, "a layer is written twice");
  s.layer_group = s.file.create_group(s.layers_group, std::to_string(layer));
  if (sliding_window > 0) s.file.write_attribute(s.layer_group, "sliding_window", sliding_window);
  s.element_type = make_type(element_type);
  s.element_bytes = size_of(element_type);
  const AttentionShape& shape = s.header.shape;
  const auto queries = static_cast<std::int64_t>(s.sample.query_positions.size());
  const hsize_t tokens = extent(s.sample.num_tokens);
  const std::int64_t rows = s.sample.num_tokens * shape.num_kv_heads;
  s.q = s.create_tensor("q", {extent(queries), extent(shape.num_query_heads), extent(shape.head_dim)}, queries);
  s.k = s.create_tensor("k", {extent(shape.num_kv_heads), tokens, extent(shape.head_dim)}, rows);
  s.v = s.create_tensor("v", {extent(shape.num_kv_heads), tokens, extent(shape.value_dim)}, rows);
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

void DumpWriter::write_attention_mass(std::span<const float> values) {
  State& s = *state_;
  require(static_cast<bool>(s.layer_group), "values before begin_layer");
  const Extent shape{extent(s.header.shape.num_query_heads), extent(s.sample.num_tokens)};
  require(values.size() == shape[0] * shape[1], "attention_mass is not [Hq, T]");
  s.file.write_dataset<float>(s.layer_group, "attention_mass", values, shape);
}

void DumpWriter::write_sinks(std::span<const float> values) {
  State& s = *state_;
  require(static_cast<bool>(s.layer_group), "values before begin_layer");
  const Extent shape{extent(s.header.shape.num_query_heads)};
  require(values.size() == shape[0] && std::ranges::all_of(values, [](float b) { return std::isfinite(b); }),
          "sinks are not [Hq] finite logits");
  s.file.write_dataset<float>(s.layer_group, "sinks", values, shape);
}

void DumpWriter::finish() {
  State& s = *state_;
  s.end_sample();
  require(!s.sample_names.empty(), "finish without a sample");
  s.samples.close();
  s.file.finish();
}

}  // namespace attest
