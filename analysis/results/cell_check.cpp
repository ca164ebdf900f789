// Compares a cell with the range of its metric, and names its place.
#include "analysis/results/cell_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "analysis/metrics/metric.h"
#include "dumps/base/join.h"
#include "kernels/selectors/registry.h"

namespace attest {
std::optional<MetricRange> range_of(const StudySelector* selector, std::string_view metric) {
  if (const Metric* known = find_metric(metric)) return known->info.range;
  if (selector == nullptr || find_selector(selector->name) == nullptr) return std::nullopt;
  const std::unique_ptr<Selector> standard = make_selector({selector->name, selector->name, {}});
  for (const MetricInfo& own : standard->own_metrics())
    if (own.name == metric) return own.range;
  return std::nullopt;
}

std::string defect(float value, const MetricRange& range) {
  if (std::isnan(value)) return range.may_be_nan ? "" : "is NaN, expected a number";
  if (is_within(value, range)) return "";
  if (std::isinf(range.min)) return fmt::format("is {}, expected a finite number", value);
  if (std::isinf(range.max)) return fmt::format("is {}, expected at least {:g}", value, range.min);
  return fmt::format("is {}, expected {:g} to {:g}", value, range.min, range.max);
}

std::string place_text(const MetricArray& array, const StudySample& sample, std::size_t cell) {
  std::vector<std::string> parts;
  const std::span<const std::string_view> names = axis_names(array.axes);
  for (std::size_t axis = array.shape.size(); axis-- > 0;) {
    const auto size = static_cast<std::size_t>(array.shape[axis]), index = cell % size;
    cell /= size;
    parts.push_back(fmt::format("{} {}", names[axis], axis == 0 ? sample.layers[index] : static_cast<int>(index)));
  }
  std::ranges::reverse(parts);
  return join(parts, ", ");
}

}  // namespace attest
