// EstimateReader: finds and checks data sets in a guarded child; reads contiguous values with pread.
#include "dumps/format/estimate_reader.h"

#include <fmt/core.h>

#include <cstring>

#include "dumps/base/error.h"
#include "dumps/format/memory_bound.h"
#include "dumps/hdf5/dataset.h"
#include "dumps/hdf5/guarded_child.h"

namespace attest {
namespace {

std::string group_path(const std::string& sample, int layer) {
  return fmt::format("/samples/{}/layers/{}", sample, layer);
}

/// Doubles become floats, in place.
void narrow(LayerBuffer& values) {
  const std::size_t count = values.size() / sizeof(double);
  for (std::size_t i = 0; i < count; ++i) {
    double wide = 0;
    std::memcpy(&wide, values.data() + i * sizeof(double), sizeof(double));
    const auto number = static_cast<float>(wide);
    std::memcpy(values.data() + i * sizeof(float), &number, sizeof(float));
  }
  values.resize(count * sizeof(float));
}

}  // namespace

EstimateReader::EstimateReader(EstimateSource source, std::span<const EstimatedLayer> layers,
                               std::uint64_t allowed_memory)
    : source_(std::move(source)), file_(source_.file) {
  std::vector<Stored> found(layers.size());
  const auto bytes = std::as_writable_bytes(std::span(found));
  std::size_t received = 0;
  run_in_guarded_child(
      file_.path(), metadata_limits(file_.stored_bytes()),
      [&](ChildOutput& output) {
        const hdf5::Group samples = hdf5::open_group(file_, "/samples");
        std::map<std::string, hdf5::Group> layers_of;  // each is opened once: to open a group lists it
        for (const EstimatedLayer& wanted : layers) {
          auto of_sample = layers_of.find(wanted.sample);
          if (of_sample == layers_of.end())
            of_sample = layers_of.emplace(wanted.sample, samples.group(wanted.sample).group("layers")).first;
          const Stored stored = find(of_sample->second.group(std::to_string(wanted.layer)), wanted);
          output.write(std::as_bytes(std::span(&stored, 1)));
        }
      },
      [&](ChildInput& input) { received = input.read(bytes); });
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const EstimatedLayer& wanted = layers[i];
    const Stored& stored = found[i];
    // Checked once more: the file may have damaged the memory of the child.
    const bool by_kv_head = stored.shape == shape_of(wanted, true);
    const bool plausible = received == bytes.size() && (by_kv_head || stored.shape == shape_of(wanted, false)) &&
                           (stored.bytes_per_value == 2 || stored.bytes_per_value == 4 || stored.bytes_per_value == 8);
    if (!plausible) throw InputError(fmt::format("{}: the file is damaged", file_.path()));
    check_memory_bound(file_, group_path(wanted.sample, wanted.layer) + "/" + source_.dataset,
                       stored.bytes_while_read(), allowed_memory);
    layers_.emplace(std::pair(wanted.sample, wanted.layer), Layer{stored, by_kv_head ? wanted.shape.group() : 1});
  }
}

std::array<std::int64_t, 3> EstimateReader::shape_of(const EstimatedLayer& wanted, bool by_kv_head) const {
  const AttentionShape& shape = wanted.shape;
  switch (source_.kind) {
    case EstimateKind::scores:
      break;
    case EstimateKind::keys:
      return {shape.num_kv_heads, wanted.num_tokens, shape.head_dim};
    case EstimateKind::values:
      return {shape.num_kv_heads, wanted.num_tokens, shape.value_dim};
  }
  return {wanted.num_queries, by_kv_head ? shape.num_kv_heads : shape.num_query_heads,
          (wanted.num_tokens + source_.width - 1) / source_.width};
}

EstimateReader::Stored EstimateReader::find(const hdf5::Group& group, const EstimatedLayer& wanted) const {
  const hdf5::Dataset data(group.open(source_.dataset));
  const bool by_kv_head = data.shape().size() == 3 && data.shape()[1] == wanted.shape.num_kv_heads;
  const std::array<std::int64_t, 3> shape = shape_of(wanted, by_kv_head);
  data.expect_shape(
      shape, source_.kind == EstimateKind::keys     ? "num_kv_heads, num_tokens, head_dim"
             : source_.kind == EstimateKind::values ? "num_kv_heads, num_tokens, value_dim"
             : source_.width == 1
                 ? "query positions of the dump, num_query_heads or num_kv_heads, num_tokens"
                 : fmt::format("query positions of the dump, num_query_heads or num_kv_heads, blocks of {} tokens",
                               source_.width));
  return {.shape = shape, .bytes_per_value = data.expect_reals(), .file_offset = data.location().file_offset};
}

void EstimateReader::fail_changed(const std::string& group) const {
  throw InputError(fmt::format("{}: {}/{}: has another size or element type, the file has changed since it was opened",
                               file_.path(), group, source_.dataset));
}

void EstimateReader::read_stored(const std::string& group, const Stored& stored, std::span<std::byte> bytes) const {
  if (stored.file_offset >= 0) {
    file_.read(static_cast<std::uint64_t>(stored.file_offset), bytes);
    return;
  }
  std::size_t received = 0;
  run_in_guarded_child(
      file_.path(), value_limits(file_.stored_bytes(), bytes.size()),
      [&](ChildOutput& output) {
        const hdf5::Dataset data(hdf5::open_group(file_, group).open(source_.dataset));
        if (data.location().bytes != bytes.size() || data.expect_reals() != stored.bytes_per_value) fail_changed(group);
        data.read_slabs([&](std::span<const std::byte> slab) { output.write(slab); });
      },
      [&](ChildInput& input) { received = input.read(bytes); });
  if (received != bytes.size()) fail_changed(group);
}

void EstimateReader::read(const std::string& sample, int layer, LayerEstimates& out) const {
  const auto& [stored, query_heads_per_estimate] = layers_.at({sample, layer});
  const bool vectors = source_.kind != EstimateKind::scores;
  out.source = source_;
  out.num_heads = static_cast<int>(stored.shape[vectors ? 0 : 1]);
  out.query_heads_per_estimate = query_heads_per_estimate;
  out.num_entries = stored.shape[vectors ? 1 : 2];
  out.in_double = stored.bytes_per_value == 8 && !vectors;
  out.values.resize(stored.bytes_in_memory());
  const std::string group = group_path(sample, layer);
  if (stored.bytes_per_value != 2) {
    read_stored(group, stored, {out.values.data(), out.values.size()});
    if (stored.bytes_per_value == 8 && vectors) narrow(out.values);
    return;
  }
  std::vector<std::byte> halves(stored.values() * 2);
  read_stored(group, stored, halves);
  convert_to_float(ElementType::float16, halves.data(), stored.values(), reinterpret_cast<float*>(out.values.data()));
}

}  // namespace attest
