// Sums cells of all settings by layer and head in one pass.
#include "experiments/study_view/delta_quality.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "kernels/base/not_defined.h"

namespace attest {
namespace {

struct Source {
  const char* metric;
  CellStatistics DeltaQuality::*target;
};
constexpr std::array kSources = {Source{"recall", &DeltaQuality::recall}, Source{"lse_error", &DeltaQuality::lse_error},
                                 Source{"keep_ratio", &DeltaQuality::keep}, Source{"io_ratio", &DeltaQuality::io},
                                 Source{"salient_ratio", &DeltaQuality::salient}};

void merge(CellStatistics& into, const CellStatistics& other) {
  into.sum += other.sum;
  into.count += other.count;
  into.min = std::min(into.min, other.min);
  into.max = std::max(into.max, other.max);
}

void merge(DeltaCurve& into, const DeltaCurve& other) {
  for (std::size_t i = 0; i < into.points.size(); ++i)
    for (const Source& source : kSources) merge(into.points[i].*source.target, other.points[i].*source.target);
}

}  // namespace

void CellStatistics::add(double value) {
  if (std::isnan(value)) return;
  sum += value;
  ++count;
  min = std::min(min, value);
  max = std::max(max, value);
}

double CellStatistics::mean() const { return count > 0 ? sum / static_cast<double>(count) : kNaN; }
double CellStatistics::minimum() const { return count > 0 ? min : kNaN; }
double CellStatistics::maximum() const { return count > 0 ? max : kNaN; }

DeltaValidation delta_validation_of(const ModelStudy& study, const PooledSelector& selector,
                                    const std::set<int>& except) {
  DeltaValidation result{.selector = &selector, .settings = {}, .model = {}, .layers = {}, .heads = {}};
  const std::vector<Setting>& grid = selector.group.grid;
  result.settings.resize(grid.size());
  std::iota(result.settings.begin(), result.settings.end(), std::size_t{0});
  std::ranges::stable_sort(result.settings, {}, [&](std::size_t s) { return grid[s].value; });
  const std::vector<DeltaQuality> none(grid.size());

  std::map<int, std::vector<DeltaCurve>> heads;  // by layer
  for (const Source& source : kSources) {
    const auto by_setting = study.cells(selector, source.metric, except);
    for (std::size_t i = 0; i < result.settings.size(); ++i)
      for (const SampleCells& sample : by_setting[result.settings[i]])
        for (std::size_t y = 0; y < sample.layers.size(); ++y) {
          std::vector<DeltaCurve>& own = heads[sample.layers[y]];
          const auto num_heads = static_cast<std::size_t>(sample.num_heads);
          for (std::size_t h = own.size(); h < num_heads; ++h)
            own.push_back({sample.layers[y], static_cast<int>(h), none});
          const std::span<const float> cells = sample.layer(y);
          for (std::size_t c = 0; c < cells.size(); ++c)
            (own[c % num_heads].points[i].*source.target).add(static_cast<double>(cells[c]));
        }
  }
  result.model.points = none;
  for (auto& [layer, own] : heads) {
    DeltaCurve whole{.layer = layer, .head = {}, .points = none};
    for (const DeltaCurve& head : own) merge(whole, head);
    merge(result.model, whole);
    result.layers.push_back(std::move(whole));
    result.heads.insert(result.heads.end(), own.begin(), own.end());
  }
  return result;
}

const std::array<QualityTarget, 4> kQualityTargets = {
    QualityTarget{"recall_mean >= 0.99", "mean recall ≥ 0.99", [](const DeltaQuality& q) { return q.recall.mean(); },
                  true, 0.99},
    QualityTarget{"recall_mean >= 0.999", "mean recall ≥ 0.999", [](const DeltaQuality& q) { return q.recall.mean(); },
                  true, 0.999},
    QualityTarget{"lse_error_max <= 0.2", "max LSE error ≤ 0.2",
                  [](const DeltaQuality& q) { return q.lse_error.maximum(); }, false, 0.2},
    QualityTarget{"lse_error_max <= 0.05", "max LSE error ≤ 0.05",
                  [](const DeltaQuality& q) { return q.lse_error.maximum(); }, false, 0.05}};

bool QualityTarget::is_met(const DeltaQuality& quality) const {
  return at_least ? value(quality) >= limit : value(quality) <= limit;
}

std::optional<std::size_t> DeltaValidation::smallest_delta(const DeltaCurve& curve, const QualityTarget& target) const {
  for (std::size_t i = 0; i < curve.points.size(); ++i)
    if (selector->of_all_samples(settings[i]) && target.is_met(curve.points[i])) return i;
  return std::nullopt;
}

bool DeltaValidation::is_met_from(std::size_t delta, const DeltaCurve& curve, const QualityTarget& target) const {
  for (std::size_t i = delta; i < curve.points.size(); ++i)
    if (selector->of_all_samples(settings[i]) && !target.is_met(curve.points[i])) return false;
  return true;
}

}  // namespace attest
