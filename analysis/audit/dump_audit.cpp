// Reads layers and their outputs one after the other, and audits each.
#include "analysis/audit/dump_audit.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "dumps/format/value_check.h"

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
    const AuditInput input{.layer = layer_,
                           .output = output,
                           .output_lse = lse,
                           .output_type = info.output_type,
                           .prompt_length = sample.prompt_length,
                           .rope = dump_.info().rope,
                           .other_windows = windows_};
    try {
      return {.sample = sample.name,
              .element_type = info.element_type,
              .output_type = info.output_type,
              .has_lse = !lse.empty(),
              .audit = audit_layer(input, options_)};
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: /samples/{}: {}", dump_.info().path, printable(sample.name), error.what()));
    }
  }

 private:
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
                    "--attention-output' records it",
                    dump.info().path));
  std::ranges::stable_sort(units, {}, &Unit::layer);
  Auditor auditor(dump, options);
  for (const Unit& unit : units) {
    found.layers.push_back(auditor.run(unit));
    if (progress) progress(found.layers.size(), units.size());
  }
  return found;
}

}  // namespace attest
