// Reads layers and their outputs one after the other, and audits each.
#include "analysis/audit/dump_audit.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "dumps/format/value_check.h"
#include "kernels/kv_formats/kv_format.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

struct Unit {
  const PlannedSample* sample;
  int layer;
};

/// The rows of an array [N, ...] that are chosen.
std::vector<float> chosen_rows(std::vector<float> values, std::size_t rows, std::span<const std::size_t> which) {
  const std::size_t width = values.size() / rows;
  for (std::size_t i = 0; i < which.size(); ++i)
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(which[i] * width), width,
                values.begin() + static_cast<std::ptrdiff_t>(i * width));
  values.resize(which.size() * width);
  return values;
}

std::vector<std::int64_t> windows_of(const DumpReader& dump) {
  std::set<std::int64_t> windows;
  for (std::size_t s = 0; s < dump.info().samples.size(); ++s)
    for (const int layer : dump.info().samples[s].layers)
      if (const std::int64_t window = dump.layer_info(s, layer).sliding_window; window > 0) windows.insert(window);
  return {windows.begin(), windows.end()};
}

/// The selector kv_cache with other scales [2] of keys and values, for the formats that take one.
std::shared_ptr<Selector> with_scales(const Selector& kv_cache, std::span<const float> scales) {
  SelectorSpec spec{.label = std::string(kv_cache.name()), .name = std::string(kv_cache.name()), .options = {}};
  std::map<std::string, std::string> formats;
  for (const OptionValue& option : kv_cache.options()) {
    formats[option.name] = option.value;
    if (option.name != "k_scale" && option.name != "v_scale" && option.name != "scales_file")
      spec.options.emplace_back(option.name, option.value);
  }
  for (const std::size_t side : {0, 1}) {
    const std::string name = side == 0 ? "k" : "v";
    const KvFormat* format = find_kv_format(formats[name]);
    if (format != nullptr && format->scale_divisor > 0)
      spec.options.emplace_back(name + "_scale", scales[side] == 1 ? "unit" : fmt::format("{}", scales[side]));
  }
  return make_selector(spec);
}

class Auditor {
 public:
  Auditor(const DumpReader& dump, const AuditOptions& options)
      : dump_(dump), options_(options), windows_(windows_of(dump)) {}

  AuditedLayer run(const Unit& unit) {
    const std::size_t index = unit.sample->index;
    const SampleInfo& sample = dump_.info().samples[index];
    const LayerInfo& info = dump_.layer_info(index, unit.layer);
    const auto fail = [&](const std::string& what) {
      throw InputError(
          fmt::format("{}: /samples/{}: {}, expected finite values", dump_.info().path, printable(sample.name), what));
    };
    if (!dump_.read_layer(index, unit.layer, layer_, options_.threads)) fail(first_bad_value(check_values(layer_)));
    std::vector<float> output = dump_.read_array<float>(index, unit.layer, "output"),
                       lse = dump_.read_array<float>(index, unit.layer, "output_lse");
    if (const std::string bad = first_bad_output(layer_, output, lse); !bad.empty()) fail(bad);
    const std::size_t rows = layer_.query_positions.size();
    output = chosen_rows(std::move(output), rows, unit.sample->query_indices);
    if (!lse.empty()) lse = chosen_rows(std::move(lse), rows, unit.sample->query_indices);
    select_queries(layer_, unit.sample->query_indices);
    options_.expected.selector.check_layer(unit.layer, layer_.shape.num_kv_heads);
    const std::shared_ptr<Selector> of_layer = selector_of_layer(index, unit.layer);
    scales_of_layers = scales_of_layers || of_layer != nullptr;
    const AuditOptions options{
        .expected = {of_layer ? *of_layer : options_.expected.selector, options_.expected.setting},
        .of_dump = options_.of_dump,
        .roundings = options_.roundings,
        .threads = options_.threads,
        .stop = options_.stop};
    const AuditInput input{.layer = layer_,
                           .output = output,
                           .output_lse = lse,
                           .output_type = info.output_type,
                           .prompt_length = sample.prompt_length,
                           .rope = dump_.info().rope,
                           .other_windows = windows_,
                           .of_llama_cpp = dump_.info().engine.starts_with("llama.cpp")};
    try {
      return {.sample = sample.name,
              .element_type = info.element_type,
              .output_type = info.output_type,
              .has_lse = !lse.empty(),
              .audit = audit_layer(input, options)};
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: /samples/{}: {}", dump_.info().path, printable(sample.name), error.what()));
    }
  }

  bool scales_of_layers = false;  ///< of a layer that was audited

 private:
  /// Null where the layer has no scales of its own.
  std::shared_ptr<Selector> selector_of_layer(std::size_t sample, int layer) const {
    if (!options_.of_dump || options_.expected.selector.name() != "kv_cache") return nullptr;
    const std::vector<float> scales = dump_.read_array<float>(sample, layer, "cache_scales");
    if (scales.empty()) return nullptr;
    try {
      return with_scales(options_.expected.selector, scales);
    } catch (const UsageError& error) {
      throw InputError(fmt::format(
          "{}: /samples/{}/layers/{}/cache_scales: has {} and {}, expected scales of the cache: {}", dump_.info().path,
          printable(dump_.info().samples[sample].name), layer, scales[0], scales[1], error.what()));
    }
  }

  const DumpReader& dump_;
  const AuditOptions& options_;
  const std::vector<std::int64_t> windows_;
  AttentionLayer layer_;
};

}  // namespace

const AuditedLayer* DumpAudit::first() const {
  const auto found = std::ranges::find_if(layers, [](const AuditedLayer& one) { return one.audit.first.has_value(); });
  return found == layers.end() ? nullptr : &*found;
}

DumpAudit audit_dump(const DumpReader& dump, const StudyPlan& plan, const AuditOptions& options,
                     const AuditProgress& progress) {
  std::vector<Unit> units;
  DumpAudit found;
  for (const UnitKey& key : plan.units) {
    const PlannedSample& sample = plan.places.front()[key.sample];
    if (contains(dump.layer_info(sample.index, key.layer).arrays, "output"))
      units.push_back({&sample, key.layer});
    else
      ++found.without_output;
  }
  if (units.empty())
    throw InputError(
        fmt::format("{}: no chosen layer has the data set 'output', what the engine's attention gave: 'attest capture "
                    "--attention-output' records it, and so do attest-vllm and captures of llama.cpp",
                    dump.info().path));
  std::ranges::stable_sort(units, {}, &Unit::layer);
  Auditor auditor(dump, options);
  for (const Unit& unit : units) {
    found.layers.push_back(auditor.run(unit));
    if (progress) progress(found.layers.size(), units.size());
  }
  found.scales_of_layers = auditor.scales_of_layers;
  return found;
}

}  // namespace attest
