// Checks all values of a dump, and states the first bad one.
#include "dumps/inspect/inspect.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <variant>

#include "dumps/base/printable.h"
#include "dumps/format/dump_fields.h"

namespace attest {
namespace {

/// first_bad_element() of the first array beside q, k and v that has one.
std::string first_bad_array(const DumpReader& dump, std::size_t sample, const AttentionLayer& layer) {
  for (const Field<LayerInfo>& field : fields_of(LayerInfo())) {
    if (!std::holds_alternative<OnDemand>(field.place)) continue;
    const std::vector<float> values = dump.read_array<float>(sample, layer.layer, field.name);
    if (std::string bad = first_bad_element(layer, field.name, field.shape, values); !bad.empty()) return bad;
  }
  return {};
}

}  // namespace

std::int64_t DumpCheck::num_bad_layers() const {
  return std::count_if(layers.begin(), layers.end(), [](const Layer& layer) { return !layer.check.sound(); });
}

std::int64_t value_bytes(const DumpReader& dump, std::size_t sample) {
  std::int64_t bytes = 0;
  for (const int layer : dump.info().samples[sample].layers) bytes += dump.layer_info(sample, layer).bytes();
  return bytes;
}

std::int64_t value_bytes(const DumpReader& dump) {
  std::int64_t bytes = 0;
  for (std::size_t sample = 0; sample < dump.info().samples.size(); ++sample) bytes += value_bytes(dump, sample);
  return bytes;
}

std::string_view name_of(Storage storage) {
  constexpr std::array<std::string_view, 4> kNames{"contiguous", "compact", "chunked", "gzip"};
  return kNames[static_cast<std::size_t>(storage)];
}

DumpCheck check_dump(const DumpReader& dump, const CheckProgress& progress) {
  DumpCheck result;
  AttentionLayer layer;
  std::size_t total = 0;
  for (const SampleInfo& sample : dump.info().samples) total += sample.layers.size();
  for (std::size_t sample = 0; sample < dump.info().samples.size(); ++sample) {
    for (const Field<SampleInfo>& field : fields_of(dump.info().samples[sample]))  // all are whole numbers
      if (std::holds_alternative<OnDemand>(field.place))
        std::ignore = dump.read_array<std::int32_t>(sample, field.name);  // refuses those that are out of range
    for (const int number : dump.info().samples[sample].layers) {
      std::ignore = dump.read_layer(sample, number, layer);  // check_values says more
      DumpCheck::Layer& checked = result.layers.emplace_back(sample, check_values(layer));
      checked.check.bad_array = first_bad_array(dump, sample, layer);
      if (progress) progress(result.layers.size(), total);
    }
  }
  return result;
}

std::string_view kinds_of_bad_values(const DumpReader& dump) {
  return dump.info().shape.values_in_keys != 0 ? "NaN, infinity or values that are not in the keys" : "NaN or infinity";
}

std::string verdict(const DumpReader& dump, const DumpCheck& check) {
  for (const DumpCheck::Layer& layer : check.layers) {
    if (layer.check.sound()) continue;
    return fmt::format("{}: /samples/{}: {} of {} layers of the dump hold {}, expected {}; {}", dump.info().path,
                       printable(dump.info().samples[layer.sample].name), check.num_bad_layers(), check.layers.size(),
                       kinds_of_bad_values(dump),
                       dump.info().shape.values_in_keys != 0 ? "finite values that the keys hold" : "finite values",
                       !layer.check.finite()     ? first_bad_value(layer.check)
                       : layer.check.other_value ? other_value_text(layer.check)
                                                 : layer.check.bad_array);
  }
  return {};
}

}  // namespace attest
