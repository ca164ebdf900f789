// Compares results with the unit's place in the study and with the table of metrics.
#include "analysis/results/unit_check.h"

#include <algorithm>

#include "analysis/metrics/metric.h"
#include "analysis/results/axes.h"

namespace attest {
namespace {

/// Values of a metric in one layer.
std::size_t value_count(MetricAxes axes, const UnitKey& unit, const Study& study, const StudySelector* selector) {
  const StudyDump& dump = study.dumps[unit.dump];
  const StudySample& sample = dump.samples[unit.sample];
  AxisSizes sizes = axis_sizes(study, dump, sample, selector);
  sizes.layers = 1;
  std::size_t count = 1;
  for (const std::int64_t size : shape_of(axes, sizes)) count *= static_cast<std::size_t>(size);
  return count;
}

/// All metrics that a layer may have: those of the table, and those that the selector alone has.
std::vector<MetricInfo> possible_metrics(const StudySelector* selector) {
  std::vector<MetricInfo> infos;
  for (const Metric& metric : all_metrics()) infos.push_back(metric.info);
  if (selector != nullptr && selector->selector != nullptr)
    for (const MetricInfo& own : selector->selector->own_metrics()) infos.push_back(own);
  return infos;
}

bool fit(const std::vector<MetricValues>& metrics, const UnitKey& unit, const Study& study,
         const StudySelector* selector) {
  const std::vector<MetricInfo> possible = possible_metrics(selector);
  std::vector<std::string_view> names;
  for (const MetricValues& values : metrics) {
    const auto info = std::ranges::find(possible, std::string_view(values.name), &MetricInfo::name);
    if (info == possible.end() || info->axes != values.axes || std::ranges::count(names, values.name) != 0 ||
        values.values.empty() || values.values.size() != value_count(values.axes, unit, study, selector))
      return false;
    names.push_back(values.name);
  }
  return true;
}

}  // namespace

bool belongs_to(const LayerResults& results, const UnitKey& unit, const Study& study) {
  const StudySample& sample = study.dumps[unit.dump].samples[unit.sample];
  if (results.dump != static_cast<int>(unit.dump) || results.sample != sample.name || results.layer != unit.layer)
    return false;
  if (!results.done) return results.scores.empty() && results.selectors.empty();
  if (results.selectors.size() != study.selectors.size() || !fit(results.scores, unit, study, nullptr)) return false;
  for (std::size_t i = 0; i < study.selectors.size(); ++i)
    if (!fit(results.selectors[i].metrics, unit, study, &study.selectors[i])) return false;
  return true;
}

std::size_t max_value_bytes(const UnitKey& unit, const Study& study) {
  std::size_t bytes = 0;
  const auto add = [&](const StudySelector* selector) {
    for (const MetricInfo& info : possible_metrics(selector))
      bytes += sizeof(float) * value_count(info.axes, unit, study, selector);
  };
  add(nullptr);
  for (const StudySelector& selector : study.selectors) add(&selector);
  return bytes;
}

std::size_t max_unit_bytes(const UnitKey& unit, const Study& study) {
  constexpr std::size_t kRest = std::size_t{64} << 20;  // names, sizes, and the hashes of a dump of 4 TiB
  return kRest + max_value_bytes(unit, study);
}

}  // namespace attest
