// Predictors of failure: numbers that the cells of one prompt at one setting give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/outcomes/outcome_join.h"

namespace attest {

struct Predictor {
  std::string name;          ///< "span_recall.min"
  bool high_fails = true;    ///< whether high values speak for a failure
  bool needs_spans = false;  ///< samples must have evidence spans
  /// In which its values are drawn: as they are, logarithmic, or 1 - x logarithmic.
  enum class Scale : std::uint8_t { plain, logarithmic, deficit };
  Scale scale = Scale::plain;

  /// High scores speak for a failure.
  double score(double value) const { return high_fails ? value : -value; }
  double value(double score) const { return high_fails ? score : -score; }
};

/// The part of the exact mass on the spans that is kept: the sum of span_mass_kept over the sum of span_mass.
inline constexpr const char* kSpanShareKept = "span_share_kept";
/// The share of the span tokens that no layer keeps (analysis/statistics/model_span_lost.h).
inline constexpr const char* kModelSpanLost = "model_span_lost";

struct PredictorValues {
  Predictor predictor;
  std::vector<double> values;  ///< [setting of the grid]; NaN where no cell is defined
};

/// Of each metric that the results have for the prompt the mean over its cells and the worst cell; of recall also the
/// 5 % quantile. A metric of which neither direction is better has its mean alone, and high values are taken for the
/// sign; of tokens and bytes that are read (keep_ratio, io_ratio, block_keep_ratio) low ones.
std::vector<PredictorValues> predictor_values(const Prompt& prompt);

}  // namespace attest
