// The paper's figures as sections of a report.
#pragma once

#include <string>
#include <vector>

#include "experiments/report/result_section.h"

namespace attest {

/// Makes the experiments `only` (empty: all), draws their figures and adds a section for each, and their findings. What
/// cannot be made or drawn is said in `drawing.notes`.
void add_experiment_sections(ResultsFiles files, const std::vector<std::string>& only, const ExperimentOptions& options,
                             ReportDrawing& drawing, ReportData& data);

}  // namespace attest
