// Compares every cell with the range of its metric.
#include "analysis/results/check_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "analysis/metrics/metric.h"
#include "dumps/base/printable.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

/// Sums in float32, on the GPU in another order, may pass a bound by their rounding (README.md, "On a GPU": 2e-4).
constexpr double kRounding = 1e-3;

/// Of a metric in the table, or of one that the selector alone has; empty for an unknown one.
std::optional<MetricRange> range_of(const StudySelector* selector, const std::string& metric) {
  if (const Metric* known = find_metric(metric)) return known->info.range;
  if (selector == nullptr || find_selector(selector->name) == nullptr) return std::nullopt;
  const std::unique_ptr<Selector> standard = make_selector({selector->name, selector->name, {}});
  for (const MetricInfo& own : standard->own_metrics())
    if (own.name == metric) return own.range;
  return std::nullopt;
}

/// What is wrong with a cell of a computed layer; empty if nothing is.
std::string defect(float value, const MetricRange& range) {
  if (std::isnan(value)) return range.may_be_nan ? "" : "is NaN, expected a number";
  if (value >= range.least - kRounding && value <= range.most + kRounding) return "";
  if (std::isinf(range.most)) return fmt::format("is {}, expected at least {:g}", value, range.least);
  return fmt::format("is {}, expected {:g} to {:g}", value, range.least, range.most);
}

/// "layer 5, query 0, head 3": the layer by its number, the others by their index.
std::string place_text(const MetricArray& array, const StudySample& sample, std::size_t cell) {
  std::vector<std::string> parts;
  const std::span<const std::string_view> names = axis_names(array.axes);
  for (std::size_t axis = array.shape.size(); axis-- > 0;) {
    const auto size = static_cast<std::size_t>(array.shape[axis]), index = cell % size;
    cell /= size;
    parts.push_back(fmt::format("{} {}", names[axis], axis == 0 ? sample.layers[index] : static_cast<int>(index)));
  }
  std::ranges::reverse(parts);
  return fmt::format("{}", fmt::join(parts, ", "));
}

class Checker {
 public:
  Checker(const ResultsFile& results, const std::function<void(std::size_t, std::size_t)>& progress)
      : results_(results), progress_(progress) {}

  ResultsCheck run() {
    const Study& study = results_.study();
    for (const bool counts : {true, false}) {
      for (std::size_t d = 0; d < study.dumps.size(); ++d) {
        for (std::size_t s = 0; s < study.dumps[d].samples.size(); ++s) {
          for (const std::string& metric : results_.score_metrics(d, s)) visit(counts, d, s, std::nullopt, metric);
          for (std::size_t i = 0; i < study.selectors.size(); ++i)
            for (const std::string& metric : results_.metrics(d, s, i)) visit(counts, d, s, i, metric);
        }
      }
    }
    ResultsCheck check;
    for (auto& [key, found] : found_) check.metrics.push_back(std::move(found));
    return check;
  }

 private:
  void visit(bool counts, std::size_t d, std::size_t s, std::optional<std::size_t> i, const std::string& metric) {
    if (counts) {
      ++total_;
      return;
    }
    const StudySelector* selector = i ? &results_.study().selectors[*i] : nullptr;
    const std::string label = selector != nullptr ? selector->label : std::string(kScoresGroup);
    MetricCheck& found = found_[{i ? *i + 1 : 0, metric}];
    if (found.metric.empty()) {
      constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
      found = {.label = label, .metric = metric, .least = kNaN, .most = kNaN, .first_bad = {}};
    }
    const MetricArray array = *(i ? results_.read(d, s, *i, metric) : results_.read_scores(d, s, metric));
    look_at(array, d, s, i, range_of(selector, metric), found);
    if (progress_) progress_(++done_, total_);
  }

  void look_at(const MetricArray& array, std::size_t d, std::size_t s, std::optional<std::size_t> i,
               const std::optional<MetricRange>& range, MetricCheck& found) const {
    const StudySample& sample = results_.study().dumps[d].samples[s];
    const std::size_t per_layer = array.values.size() / static_cast<std::size_t>(array.num_layers());
    for (std::size_t cell = 0; cell < array.values.size(); ++cell) {
      const float value = array.values[cell];
      std::string wrong;
      if (!was_done(d, s, i, cell / per_layer)) {
        if (!std::isnan(value)) wrong = fmt::format("is {}, expected NaN in a layer that was left out", value);
      } else {
        ++found.cells;
        if (std::isnan(value)) {
          ++found.nan;
        } else if (std::isinf(value)) {
          ++found.infinite;
        } else {
          found.least = std::fmin(found.least, value);
          found.most = std::fmax(found.most, value);
        }
        if (range) wrong = defect(value, *range);
      }
      if (wrong.empty()) continue;
      if (found.bad++ == 0)
        found.first_bad =
            fmt::format("/dumps/{}/samples/{}/{}/{}: [{}] {}", d, printable(sample.name), printable(found.label),
                        printable(found.metric), place_text(array, sample, cell), wrong);
    }
  }

  /// A layer is left out for all selectors, so the first one tells of the exact scores, too.
  bool was_done(std::size_t d, std::size_t s, std::optional<std::size_t> i, std::size_t layer) const {
    return results_.study().selectors.empty() || results_.done(d, s, i.value_or(0)).at(layer) != 0;
  }

  const ResultsFile& results_;
  const std::function<void(std::size_t, std::size_t)>& progress_;
  std::map<std::pair<std::size_t, std::string>, MetricCheck> found_;
  std::size_t done_ = 0, total_ = 0;
};

}  // namespace

std::int64_t ResultsCheck::num_bad() const {
  std::int64_t sum = 0;
  for (const MetricCheck& metric : metrics) sum += metric.bad;
  return sum;
}

ResultsCheck check_results(const ResultsFile& results,
                           const std::function<void(std::size_t done, std::size_t total)>& progress) {
  return Checker(results, progress).run();
}

std::string verdict(const ResultsFile& results, const ResultsCheck& check) {
  const auto found = std::ranges::find_if(check.metrics, [](const MetricCheck& metric) { return metric.bad > 0; });
  if (found == check.metrics.end()) return {};
  return fmt::format("{}: {}; {} {} of the file {} what the metric does not allow", results.path(), found->first_bad,
                     check.num_bad(), check.num_bad() == 1 ? "cell" : "cells", check.num_bad() == 1 ? "holds" : "hold");
}

}  // namespace attest
