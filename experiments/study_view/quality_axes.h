// Axes of bytes, tokens and quality: the same in every experiment that has them.
#pragma once

#include <span>

#include "experiments/study_view/experiment.h"
#include "experiments/study_view/quality_curves.h"

namespace attest {

/// Bytes read, or tokens kept, in per cent, logarithmic. It begins just below the smallest value of a real selector:
/// oracles continue down to a handful of tokens and would fill the panel.
Axis bytes_axis(std::span<const QualityCurve> curves);
Axis tokens_axis(std::span<const QualityCurve> curves);

/// A curve's points in a panel over bytes read; rings are the settings of the papers.
Series curve_series(const ModelStudy& study, const QualityCurve& curve, const std::string& column);

/// A quality that is at most 1. On a logarithmic axis less than kMinDeficit below 1 decides nothing, and of what is
/// seen of spans less than kMinSpanDeficit.
inline constexpr double kMinDeficit = 1e-6, kMinSpanDeficit = 1e-5;
Axis quality_axis(const std::string& label, const ExperimentOptions& options);

/// An error in nats. A selector that keeps everything has only rounding errors, which would extend a logarithmic axis
/// by decades without information: if `some_negligible`, smaller errors than kSmallestRelevantError are drawn there.
inline constexpr double kSmallestRelevantError = 1e-3;
Axis error_axis(const std::string& label, bool some_negligible, const ExperimentOptions& options);

/// Whether some point's max LSE error is smaller than kSmallestRelevantError.
bool has_negligible_error(std::span<const QualityCurve> curves);

}  // namespace attest
