// Scales, bounds and floors of the axes of quality.
#include "experiments/study_view/quality_axes.h"

#include <algorithm>
#include <optional>

#include "experiments/study_view/words.h"

namespace attest {
namespace {

/// Lower end of the axis, in per cent.
std::optional<double> lower_bound(std::span<const QualityCurve> curves, bool keep) {
  std::optional<double> minimum;
  for (const QualityCurve& curve : curves)
    if (!curve.whole_model && curve.selector->group.name != "exact" && !curve.selector->is_oracle())
      for (const QualityPoint& p : curve.points)
        if (const double share = keep ? p.keep.mean : p.io.mean; share > 0)
          minimum = std::min(minimum.value_or(1), share);
  if (minimum) *minimum *= 100 / 1.3;
  return minimum;
}

}  // namespace

Axis bytes_axis(std::span<const QualityCurve> curves) {
  return {.label = "bytes read (% of dense)",
          .factor = 100,
          .scale = Scale::logarithmic,
          .low = lower_bound(curves, false)};
}

Axis tokens_axis(std::span<const QualityCurve> curves) {
  return {.label = "tokens kept (%)", .factor = 100, .scale = Scale::logarithmic, .low = lower_bound(curves, true)};
}

Series curve_series(const ModelStudy& study, const QualityCurve& curve, const std::string& column) {
  return {.curve = curve.name,
          .title = legend_title(*curve.selector),
          .x = "io_ratio",
          .y = column,
          .style = study.style(*curve.selector),
          .ring = curve.selector->has_paper() ? "default" : ""};
}

Axis quality_axis(const std::string& label, const ExperimentOptions& options) {
  if (options.linear_axes) return {.label = label};
  return {.label = label, .scale = Scale::deficit, .floor = kMinDeficit};
}

Axis error_axis(const std::string& label, bool some_negligible, const ExperimentOptions& options) {
  if (options.linear_axes) return {.label = label};
  return {.label = label,
          .scale = Scale::logarithmic,
          .floor = some_negligible ? std::optional(kSmallestRelevantError) : std::nullopt};
}

bool has_negligible_error(std::span<const QualityCurve> curves) {
  return std::ranges::any_of(curves, [](const QualityCurve& curve) {
    return std::ranges::any_of(curve.points,
                               [](const QualityPoint& p) { return p.lse_error_max < kSmallestRelevantError; });
  });
}

}  // namespace attest
