// The figures of failure_prediction: ROC curves and calibration.
#pragma once

#include "experiments/failure_prediction/outcome_study.h"
#include "plots/figure.h"

namespace attest {

/// Shares of failures caught against false alarms, of the predictors of the fixed list that have enough outcomes; a
/// panel each for those with and without spans. No panel: there is none.
Figure roc_figure(const OutcomeStudy& study);

/// Runs of one bin of a predictor's values, the bin's ends included.
struct CalibrationBin {
  double low = 0, high = 0, median = 0;
  std::int64_t runs = 0, failures = 0;
};

/// Bins of about equal numbers of runs, ascending; equal values are never divided. `values` and `failed` are of one
/// length, without NaN.
std::vector<CalibrationBin> calibration_bins(const std::vector<double>& values, const std::vector<bool>& failed,
                                             std::size_t maximum);

/// The share of failures by bins of each of these predictors, a panel each.
Figure calibration_figure(const OutcomeStudy& study);

}  // namespace attest
