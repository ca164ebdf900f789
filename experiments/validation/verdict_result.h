// A verdict as figures, tables and findings, in the form that the writers of figures and reports take.
#pragma once

#include "experiments/study_view/experiment.h"
#include "experiments/validation/judgement.h"

namespace attest {

/// The name that captions give it.
inline constexpr const char* kVerdictExperiment = "validation";

/// What was tested: setting, n, k, share with its interval, p-value, verdict, costs.
NamedTable settings_table(const Judgement& judgement);

/// Violations by task and by length at the setting that the verdict is about.
NamedTable groups_table(const Judgement& judgement);

/// Figures (none of a selector without settings), both tables, and the verdict's sentences. Offenders have their place
/// on the map of a report.
ExperimentMade verdict_result(const Judgement& judgement);

}  // namespace attest
