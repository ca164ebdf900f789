// Pools rank metrics by layer, finds equal estimates, compares curves.
#include "experiments/study_view/rank_curves.h"

#include <map>

#include "kernels/base/not_defined.h"

namespace attest {
namespace {

/// Whether `b` has every point of `a`. Selectors that differ in rule, GQA policy or dense layers have the same
/// estimate.
bool is_part_of(const RankCurve& a, const RankCurve& b) {
  return std::ranges::all_of(a.layers, [&](const RankPoint& p) {
    const auto there = std::ranges::find(b.layers, p.layer, &RankPoint::layer);
    if (there == b.layers.end()) return false;
    for (std::size_t m = 0; m < kRankMetrics.size(); ++m)
      if (p.metrics[m].cells > 0 && !(p.mean(m) == there->mean(m))) return false;
    return true;
  });
}

}  // namespace

RankCurve rank_curve(const ModelStudy& study, const PooledSelector& selector, const std::set<int>& dense,
                     const std::optional<SampleKey>& sample) {
  RankCurve curve{.selector = &selector, .sample = sample ? study.sample_title(*sample) : ""};
  std::map<int, RankPoint> layers;
  for (std::size_t m = 0; m < kRankMetrics.size(); ++m) {
    const std::vector<SampleCells> cells = of_samples(study.cells(selector, kRankMetrics[m].name).front(),
                                                      sample ? std::set{*sample} : std::set<SampleKey>{});
    std::vector<SampleCells> compared;
    for (const int layer : layers_of(cells)) {
      const std::vector<SampleCells> here = of_layer(cells, layer);
      const Moments moments = describe(here);
      layers.try_emplace(layer, RankPoint{.layers = "one", .layer = static_cast<double>(layer)})
          .first->second.metrics[m] = {mean_interval(here), moments.min, moments.count};
      if (!dense.contains(layer)) compared.insert(compared.end(), here.begin(), here.end());
    }
    const auto pooled = [](std::span<const SampleCells> some) {
      const Moments moments = describe(some);
      return RankCorrelation{
          {.mean = moments.mean, .low = kNaN, .high = kNaN, .clusters = some.size()}, moments.min, moments.count};
    };
    curve.compared.metrics[m] = pooled(compared);
    curve.all.metrics[m] = pooled(cells);
  }
  for (const auto& [layer, point] : layers)
    if (point.has_cells()) curve.layers.push_back(point);
  return curve;
}

void find_equal_curves(std::vector<RankCurve>& curves) {
  for (RankCurve& a : curves)
    for (RankCurve& b : curves) {
      if (&a == &b || !b.same_as.empty() || !a.same_as.empty() || !is_part_of(a, b)) continue;
      if (a.layers.size() < b.layers.size() || &b < &a) a.same_as = b.name();
    }
}

RankComparison::RankComparison(const RankCurve& a, const RankCurve& b, std::size_t metric) {
  double a_sum = 0, b_sum = 0;
  for (const RankPoint& p : a.layers) {
    const auto there = std::ranges::find(b.layers, p.layer, &RankPoint::layer);
    if (there == b.layers.end() || p.metrics[metric].cells == 0 || there->metrics[metric].cells == 0) continue;
    ++layers;
    above += p.mean(metric) > there->mean(metric) ? 1 : 0;
    a_sum += p.mean(metric);
    b_sum += there->mean(metric);
  }
  a_mean = layers > 0 ? a_sum / layers : kNaN;
  b_mean = layers > 0 ? b_sum / layers : kNaN;
}

}  // namespace attest
