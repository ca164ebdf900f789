#include "dumps/dump_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/file_descriptor.h"
#include "dumps/hdf5/handle.h"

namespace attest {
namespace {

using hdf5::Handle;
using hdf5::Lock;
using Extent = std::vector<hsize_t>;

/// Below HDF5's chunk cache of 1 MiB, so that slabs may end within a chunk.
constexpr hsize_t kChunkBytes = 256 * 1024;

void require(bool condition, const char* broken_rule) {
  if (!condition) throw std::logic_error(fmt::format("DumpWriter: {}", broken_rule));
}

hsize_t extent(std::int64_t n) { return static_cast<hsize_t>(n); }

/// Standard floats and bfloat16, as HDF5 spells float types: little endian, sign, exponent, mantissa.
Handle make_type(ElementType element_type) {
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
  // Written so that NaN fails.
  if (!(header.softmax_scale >= 0 && header.softmax_scale < HUGE_VAL && header.logit_softcap >= 0 &&
        header.logit_softcap < HUGE_VAL)) {
    throw UsageError(fmt::format("{}: softmax scale {} and soft-cap {} must be finite and not negative", path,
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
    std::int64_t rows_left = 0;  ///< not yet written, along the axis of queries or tokens, over all KV heads
  };

  std::string path, temporary;
  DumpInfo header;
  DumpWriterOptions options;
  Handle file, samples, string_type;
  bool complete = false;

  SampleInfo sample;  ///< the open one
  Handle sample_group, layers_group;
  std::set<std::string> sample_names;
  std::set<int> layer_numbers;

  Handle layer_group, element_type;
  std::size_t element_bytes = 0;
  Tensor q, k, v;

  template <class Result>
  Result checked(Result result) const {
    if (result < 0) fail(hdf5::take_error_text());
    return result;
  }
  [[noreturn]] void fail(const std::string& reason) const {
    throw OutputError(fmt::format("{}: cannot be written ({})", path, reason));
  }
  Handle owned(hid_t id) const { return Handle(checked(id)); }

  /// Creation properties of files, groups or data sets without their times: the same content makes the same bytes.
  Handle untimed(hid_t kind) const {
    Handle properties = owned(H5Pcreate(kind));
    checked(H5Pset_obj_track_times(properties.get(), false));
    return properties;
  }

  Handle create_group(const Handle& at, const std::string& name) const {
    const Handle properties = untimed(H5P_GROUP_CREATE);
    return owned(H5Gcreate2(at.get(), name.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
  }

  void write_attribute(const Handle& at, const char* name, hid_t type, const void* value) const {
    const Handle space = owned(H5Screate(H5S_SCALAR));
    const Handle attribute = owned(H5Acreate2(at.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT));
    checked(H5Awrite(attribute.get(), type, value));
  }
  void attribute(const Handle& at, const char* name, const std::string& text) const {
    const char* pointer = text.c_str();
    write_attribute(at, name, string_type.get(), &pointer);
  }
  void attribute(const Handle& at, const char* name, std::int64_t value) const {
    write_attribute(at, name, H5T_STD_I64LE, &value);
  }
  void attribute(const Handle& at, const char* name, double value) const {
    write_attribute(at, name, H5T_IEEE_F64LE, &value);
  }

  Handle create_dataset(const Handle& at, const char* name, hid_t type, const Extent& shape,
                        const Handle& properties) const {
    const Handle space = owned(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    return owned(H5Dcreate2(at.get(), name, type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
  }
  /// A small one, whole.
  void dataset(const Handle& at, const char* name, hid_t type, const Extent& shape, const void* values) const {
    const Handle data = create_dataset(at, name, type, shape, untimed(H5P_DATASET_CREATE));
    checked(H5Dwrite(data.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
  }

  Tensor create_tensor(const char* name, const Extent& shape, std::int64_t rows) const {
    const Handle properties = untimed(H5P_DATASET_CREATE);
    checked(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER));
    if (options.gzip_level > 0) {
      const hsize_t row_bytes = shape[2] * element_bytes;
      const Extent chunk{1, std::clamp<hsize_t>(kChunkBytes / row_bytes, 1, shape[1]), shape[2]};
      checked(H5Pset_chunk(properties.get(), 3, chunk.data()));
      checked(H5Pset_shuffle(properties.get()));
      checked(H5Pset_deflate(properties.get(), static_cast<unsigned>(options.gzip_level)));
    }
    return {create_dataset(layer_group, name, element_type.get(), shape, properties), rows};
  }

  void write_slab(Tensor& tensor, const Extent& start, const Extent& count, std::int64_t rows,
                  const std::byte* values) {
    const Lock lock;
    const Handle file_space = owned(H5Dget_space(tensor.data.get()));
    checked(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr));
    const Handle memory_space = owned(H5Screate_simple(3, count.data(), nullptr));
    checked(H5Dwrite(tensor.data.get(), element_type.get(), memory_space.get(), file_space.get(), H5P_DEFAULT, values));
    tensor.rows_left -= rows;
  }

  /// [count, row] of one KV head.
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

  void create_file() {
    const Handle access = owned(H5Pcreate(H5P_FILE_ACCESS));
    checked(H5Pset_alignment(access.get(), 1 << 20, 4096));                       // large tensors at page borders
    checked(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18));  // metadata with checksums
    const Handle creation = untimed(H5P_FILE_CREATE);
    file = owned(H5Fcreate(temporary.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
    string_type = owned(H5Tcopy(H5T_C_S1));
    checked(H5Tset_size(string_type.get(), H5T_VARIABLE));
    checked(H5Tset_cset(string_type.get(), H5T_CSET_UTF8));
  }

  void write_header() const {
    attribute(file, "format", std::string("attention-dump"));
    attribute(file, "format_version", std::int64_t{1});
    attribute(file, "model", header.model);
    attribute(file, "num_layers", std::int64_t{header.num_layers});
    attribute(file, "num_query_heads", std::int64_t{header.shape.num_query_heads});
    attribute(file, "num_kv_heads", std::int64_t{header.shape.num_kv_heads});
    attribute(file, "head_dim", std::int64_t{header.shape.head_dim});
    attribute(file, "value_dim", std::int64_t{header.shape.value_dim});
    if (header.softmax_scale > 0) attribute(file, "softmax_scale", header.softmax_scale);
    if (header.logit_softcap > 0) attribute(file, "logit_softcap", header.logit_softcap);
    if (!header.rope.empty()) attribute(file, "rope", header.rope);
    if (!header.source.empty()) attribute(file, "source", header.source);
    if (!header.created.empty()) attribute(file, "created", header.created);
  }

  void write_sample(std::span<const std::int32_t> tokens) const {
    attribute(sample_group, "task", sample.task);
    attribute(sample_group, "num_tokens", sample.num_tokens);
    if (sample.prompt_length) attribute(sample_group, "prompt_length", *sample.prompt_length);
    dataset(sample_group, "query_positions", H5T_STD_I64LE, {sample.query_positions.size()},
            sample.query_positions.data());
    if (!tokens.empty()) dataset(sample_group, "tokens", H5T_STD_I32LE, {tokens.size()}, tokens.data());
    if (sample.spans.empty()) return;
    std::vector<std::array<std::int64_t, 2>> spans;
    for (const TokenSpan& span : sample.spans) spans.push_back({span.begin, span.end});
    dataset(sample_group, "spans", H5T_STD_I64LE, {spans.size(), 2}, spans.data());
    if (sample.span_labels.empty()) return;
    std::vector<const char*> labels;
    for (const std::string& label : sample.span_labels) labels.push_back(label.c_str());
    dataset(sample_group, "span_labels", string_type.get(), {labels.size()}, labels.data());
  }

  /// What was written reaches the disk before the name does.
  void publish() {
    const FileDescriptor written(::open(temporary.c_str(), O_RDONLY | O_CLOEXEC));
    if (!written || ::fsync(written.get()) != 0) fail(std::strerror(errno));
    if (!options.overwrite && ::link(temporary.c_str(), path.c_str()) == 0) {  // link never replaces, rename does
      ::unlink(temporary.c_str());
      return;
    }
    if (!options.overwrite && errno == EEXIST) refuse_existing();
    if (std::rename(temporary.c_str(), path.c_str()) != 0) fail(std::strerror(errno));
  }
  [[noreturn]] void refuse_existing() const {
    throw OutputError(fmt::format("{}: exists already, expected a new file (or --force)", path));
  }
};

DumpWriter::DumpWriter(const std::string& path, const DumpInfo& header, const DumpWriterOptions& options)
    : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->temporary = fmt::format("{}.tmp-{}", path, ::getpid());
  state_->header = header;
  state_->options = options;
  check_header(path, header);
  std::error_code ignored;
  if (!options.overwrite && std::filesystem::exists(path, ignored)) state_->refuse_existing();
  const Lock lock;
  state_->create_file();
  state_->write_header();
  state_->samples = state_->create_group(state_->file, "samples");
}

DumpWriter::~DumpWriter() {
  const std::string temporary = state_->complete ? "" : state_->temporary;
  {
    const Lock lock;
    state_.reset();
  }
  if (!temporary.empty()) ::unlink(temporary.c_str());
}

void DumpWriter::begin_sample(const SampleInfo& sample, std::span<const std::int32_t> tokens) {
  const Lock lock;
  state_->end_sample();
  check_sample(state_->path, sample, tokens.size());
  require(state_->sample_names.insert(sample.name).second, "a sample is written twice");
  state_->sample = sample;
  state_->layer_numbers.clear();
  state_->sample_group = state_->create_group(state_->samples, sample.name);
  state_->layers_group = state_->create_group(state_->sample_group, "layers");
  state_->write_sample(tokens);
}

void DumpWriter::begin_layer(int layer, ElementType element_type, std::int64_t sliding_window) {
  State& s = *state_;
  const Lock lock;
  require(static_cast<bool>(s.sample_group), "begin_layer before begin_sample");
  s.end_layer();
  require(layer >= 0 && layer < s.header.num_layers && sliding_window >= 0, "layer number or window out of range");
  require(s.layer_numbers.insert(layer).second, "a layer is written twice");
  s.layer_group = s.create_group(s.layers_group, std::to_string(layer));
  if (sliding_window > 0) s.attribute(s.layer_group, "sliding_window", sliding_window);
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
  const Lock lock;
  s.dataset(s.layer_group, "attention_mass", H5T_IEEE_F32LE, shape, values.data());
}

void DumpWriter::finish() {
  State& s = *state_;
  {
    const Lock lock;
    s.end_sample();
    require(!s.sample_names.empty(), "finish without a sample");
    s.samples.close();
    if (!s.file.close()) s.fail(hdf5::take_error_text());
  }
  s.publish();
  s.complete = true;
}

}  // namespace attest
