// Pools cells into points of quality against bytes and tokens.
#include "experiments/study_view/quality_curves.h"

#include <algorithm>
#include <iterator>

#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/words.h"
#include "plots/figure.h"

namespace attest {
namespace {

/// The share of bytes at which the paper compares methods.
constexpr double kComparedIo = 0.25;

std::vector<QualityPoint> compared_points(const QualityCurve& curve) {
  std::vector<QualityPoint> points;
  std::ranges::copy_if(curve.points, std::back_inserter(points), &QualityPoint::is_compared);
  return points;
}

}  // namespace

void QualityCurve::name_whole_model() {
  whole_model = true;
  name += " [all layers]";
}

std::vector<ColumnOf<QualityRow>> quality_columns() {
  return {{{kCurveColumn, kText}, [](const QualityRow& r) { return r.curve->name; }},
          {{"label", kText}, [](const QualityRow& r) { return display_name(r.group().label); }},
          {{"selector", kText}, [](const QualityRow& r) { return r.group().name; }},
          {{"setting", kText}, [](const QualityRow& r) { return std::string(name_of(r.group().kind)); }},
          {{"setting_label", kText}, [](const QualityRow& r) { return display_name(r.point->setting_label); }},
          {{"layers", kText}, [](const QualityRow& r) { return r.curve->whole_model ? "all" : "compared"; }}};
}

QualityCurve quality_curve(const ModelStudy& study, const PooledSelector& selector, const std::set<int>& except,
                           const std::set<SampleKey>& samples, const BootstrapOptions& intervals) {
  const auto io = study.cells(selector, "io_ratio", except), keep = study.cells(selector, "keep_ratio", except);
  const auto recall = study.cells(selector, "recall", except), lse = study.cells(selector, "lse_error", except);
  const auto mass = study.cells(selector, "mass_recall", except);
  QualityCurve curve{.selector = &selector,
                     .name = curve_name(selector.group.label),
                     .sample = samples.size() == 1 ? study.sample_title(*samples.begin()) : ""};
  for (std::size_t s = 0; s < recall.size(); ++s) {
    const std::vector<SampleCells> cells = of_samples(recall[s], samples);
    const Moments recalls = describe(cells);
    if (recalls.count == 0) continue;
    const std::vector<SampleCells> errors = of_samples(lse.at(s), samples);
    curve.points.push_back({.setting = s,
                            .setting_label = selector.group.setting_labels[s],
                            .io = mean_interval(of_samples(io.at(s), samples), kNoIntervals),
                            .keep = mean_interval(of_samples(keep.at(s), samples), kNoIntervals),
                            .recall = mean_interval(cells, intervals),
                            .lse_error = mean_interval(errors, intervals),
                            .recall_min = recalls.min,
                            .recall_p5 = quantile(cells, 0.05),
                            .lse_error_max = describe(errors).max,
                            .mass_recall_min = describe(of_samples(mass.at(s), samples)).min,
                            .cells = recalls.count,
                            .is_paper_setting = is_paper_setting(selector.group, s),
                            .is_compared = samples.size() == 1 || selector.of_all_samples(s)});
  }
  std::ranges::stable_sort(curve.points, {}, [](const QualityPoint& p) { return p.keep.mean; });
  return curve;
}

std::vector<QualityCurve> quality_curves(const ModelStudy& study, const std::set<int>& except) {
  std::vector<QualityCurve> curves;
  for (const PooledSelector& selector : study.selectors()) {
    QualityCurve curve = quality_curve(study, selector, except);
    if (!curve.points.empty()) curves.push_back(std::move(curve));
  }
  std::ranges::stable_partition(curves, [](const QualityCurve& c) { return c.selector->group.name != "exact"; });
  return curves;
}

std::optional<double> value_at(const QualityCurve& curve, double x, ValueOf x_of, ValueOf value) {
  const std::vector<QualityPoint> points = compared_points(curve);
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const QualityPoint &a = points[i], &b = points[i + 1];
    if (!(x_of(a) <= x && x <= x_of(b))) continue;
    const double part = x_of(b) > x_of(a) ? (x - x_of(a)) / (x_of(b) - x_of(a)) : 0;
    return value(a) + part * (value(b) - value(a));
  }
  return std::nullopt;
}

std::optional<double> at_io(const QualityCurve& curve, double io, ValueOf value) {
  return value_at(
      curve, io, [](const QualityPoint& p) { return p.io.mean; }, value);
}

std::optional<double> shared_io(const QualityCurve& a, const QualityCurve& b) {
  const std::vector<QualityPoint> ours = compared_points(a), theirs = compared_points(b);
  if (ours.empty() || theirs.empty()) return std::nullopt;
  const double low = std::max(ours.front().io.mean, theirs.front().io.mean);
  const double high = std::min(ours.back().io.mean, theirs.back().io.mean);
  if (low > high) return std::nullopt;
  std::vector<double> wanted = {kComparedIo};
  for (const QualityPoint& p : ours)
    if (p.is_paper_setting) wanted.push_back(p.io.mean);
  for (double io : wanted)
    if (low <= io && io <= high) return io;
  return (low + high) / 2;
}

const QualityCurve* first_of(const std::vector<QualityCurve>& curves, std::string_view name) {
  const auto found = std::ranges::find_if(curves, [&](const QualityCurve& c) {
    return c.selector->group.name == name && !c.points.empty() && !c.whole_model && c.sample.empty();
  });
  return found == curves.end() ? nullptr : &*found;
}

}  // namespace attest
