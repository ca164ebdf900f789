// Compares every cell with the range of its metric.
#include "analysis/results/check_results.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "analysis/results/cell_check.h"
#include "dumps/base/printable.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

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
      constexpr auto kNothing = static_cast<float>(kNaN);
      found = {.label = label, .metric = metric, .minimum = kNothing, .maximum = kNothing, .first_bad = {}};
    }
    const MetricArray array =
        *(i ? results_.read(d, s, *i, metric, ReadCells::all) : results_.read_scores(d, s, metric, ReadCells::all));
    look_at(array, d, s, i, range_of(selector, metric), found);
    if (progress_) progress_(++done_, total_);
  }

  void look_at(const MetricArray& array, std::size_t d, std::size_t s, std::optional<std::size_t> i,
               const std::optional<MetricRange>& range, MetricCheck& found) const {
    const StudySample& sample = results_.study().dumps[d].samples[s];
    const std::size_t per_layer = array.values.size() / static_cast<std::size_t>(array.num_layers());
    bool done = true;
    for (std::size_t cell = 0; cell < array.values.size(); ++cell) {
      const float value = array.values[cell];
      if (cell % per_layer == 0) done = was_done(d, s, i, cell / per_layer);
      if (done) count(value, found);
      const bool good =
          done ? !range || is_within(value, *range) || (std::isnan(value) && range->may_be_nan) : std::isnan(value);
      if (good) continue;
      const std::string wrong =
          done ? defect(value, *range) : fmt::format("is {}, expected NaN in a layer that was left out", value);
      if (found.bad++ == 0)
        found.first_bad =
            fmt::format("/dumps/{}/samples/{}/{}/{}: [{}] {}", d, printable(sample.name), printable(found.label),
                        printable(found.metric), place_text(array, sample, cell), wrong);
    }
  }

  static void count(float value, MetricCheck& found) {
    ++found.cells;
    if (std::isnan(value)) {
      ++found.nan;
    } else if (std::isinf(value)) {
      ++found.infinite;
    } else {
      found.minimum = std::isnan(found.minimum) ? value : std::min(found.minimum, value);
      found.maximum = std::isnan(found.maximum) ? value : std::max(found.maximum, value);
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
