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
        for (const EstimatedLayer& wanted : layers) {
          const Stored stored = find(wanted);
          output.write(std::as_bytes(std::span(&stored, 1)));
        }
      },
      [&](ChildInput& input) { received = input.read(bytes); });
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const EstimatedLayer& wanted = layers[i];
    const Stored& stored = found[i];
    // Checked once more: the file may have damaged the memory of the child.
    const bool plausible =
        received == bytes.size() && stored.num_queries == wanted.num_queries &&
        (stored.num_heads == wanted.shape.num_query_heads || stored.num_heads == wanted.shape.num_kv_heads) &&
        stored.num_heads * stored.query_heads_per_estimate == wanted.shape.num_query_heads &&
        stored.num_entries == (wanted.num_tokens + source_.width - 1) / source_.width &&
        (stored.bytes_per_value == 2 || stored.bytes_per_value == 4 || stored.bytes_per_value == 8);
    if (!plausible) throw InputError(fmt::format("{}: the file is damaged", file_.path()));
    check_memory_bound(file_, group_path(wanted.sample, wanted.layer) + "/" + source_.dataset,
                       stored.bytes_while_read(), allowed_memory);
    layers_.emplace(std::pair(wanted.sample, wanted.layer), stored);
  }
}

EstimateReader::Stored EstimateReader::find(const EstimatedLayer& wanted) const {
  const hdf5::Group group = hdf5::open_group(file_.path(), group_path(wanted.sample, wanted.layer));
  const hdf5::Dataset data(group.open(source_.dataset));
  const std::int64_t entries = (wanted.num_tokens + source_.width - 1) / source_.width;
  const bool by_kv_head = data.shape().size() == 3 && data.shape()[1] == wanted.shape.num_kv_heads;
  const int heads = by_kv_head ? wanted.shape.num_kv_heads : wanted.shape.num_query_heads;
  data.expect_shape(std::vector<std::int64_t>{wanted.num_queries, heads, entries},
                    fmt::format("query positions of the dump, num_query_heads or num_kv_heads, {}",
                                source_.width == 1 ? "num_tokens" : fmt::format("blocks of {} tokens", source_.width)));
  return {.num_queries = wanted.num_queries,
          .num_heads = heads,
          .query_heads_per_estimate = wanted.shape.num_query_heads / heads,
          .num_entries = entries,
          .bytes_per_value = data.expect_reals(),
          .file_offset = data.location().file_offset};
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
        const hdf5::Dataset data(hdf5::open_group(file_.path(), group).open(source_.dataset));
        data.read_slabs([&](std::span<const std::byte> slab) { output.write(slab); });
      },
      [&](ChildInput& input) { received = input.read(bytes); });
  if (received != bytes.size())
    throw InputError(fmt::format("{}: {}/{}: ends early, the file has changed since it was opened", file_.path(), group,
                                 source_.dataset));
}

void EstimateReader::read(const std::string& sample, int layer, LayerEstimates& out) const {
  const Stored& stored = layers_.at({sample, layer});
  out.source = source_;
  out.num_heads = static_cast<int>(stored.num_heads);
  out.query_heads_per_estimate = static_cast<int>(stored.query_heads_per_estimate);
  out.num_entries = stored.num_entries;
  out.in_double = stored.bytes_per_value == 8;
  out.values.resize(stored.bytes_in_memory());
  const std::string group = group_path(sample, layer);
  if (stored.bytes_per_value != 2) return read_stored(group, stored, {out.values.data(), out.values.size()});
  std::vector<std::byte> halves(stored.values() * 2);
  read_stored(group, stored, halves);
  convert_to_float(ElementType::float16, halves.data(), stored.values(), reinterpret_cast<float*>(out.values.data()));
}

}  // namespace attest
