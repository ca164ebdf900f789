// The tables of failure_prediction: AUC, thresholds, parts left out, targets.
#pragma once

#include <vector>

#include "experiments/failure_prediction/outcome_study.h"
#include "experiments/study_view/experiment.h"

namespace attest {

/// AUC of a predictor over the runs of a scope.
struct AucRow {
  std::size_t predictor = 0;
  const OutcomeScope* scope = nullptr;
  OutcomeCounts counts;    ///< of the runs for which it is defined
  Auc pooled, same_label;  ///< over all pairs of a failure and a right run; over those of one label. NaN: too few
};

/// Rows for each scope and every predictor that it has, in the order of ordered_predictors().
std::vector<AucRow> auc_rows(const OutcomeStudy& study, const std::vector<OutcomeScope>& scopes, int threads);

NamedTable auc_table(const OutcomeStudy& study, const std::vector<AucRow>& rows);
/// The table of thresholds that would have caught shares of the failures, for the predictors and scopes of the rows.
NamedTable thresholds_table(const OutcomeStudy& study, const std::vector<AucRow>& rows);

/// failure_prediction_left_out and its findings. `order`: the predictors.
void add_left_out(const OutcomeStudy& study, const std::vector<std::size_t>& order, int threads,
                  ExperimentResult& result);

/// failure_prediction_margin and its finding: predicted margins below 0. Nothing without them.
void add_margins(const OutcomeStudy& study, const std::vector<OutcomeScope>& scopes, ExperimentResult& result);

/// failure_prediction_target and its findings.
void add_targets(const OutcomeStudy& study, ExperimentResult& result);

/// "87.5 %", "-" for NaN.
std::string share_text(double share);
/// "0.985 (0.970 to 0.990)".
std::string auc_text(const Auc& auc);

}  // namespace attest
