// The paper's figures as sections of a report.
#pragma once

#include <string>
#include <vector>

#include "analysis/outcomes/tasks_file.h"
#include "experiments/kernel_figures/kernel_experiments.h"
#include "experiments/report/result_section.h"

namespace attest {

/// Makes the experiments `only` (empty: all) from results, kernel benches and answers to tasks, draws their figures and
/// adds a section for each, and their findings. What cannot be made or drawn is said in `drawing.notes`.
void add_experiment_sections(ResultsFiles files, const std::vector<KernelStudy>& benches,
                             const std::vector<TasksFile>& tasks, const std::vector<std::string>& only,
                             const ExperimentOptions& options, ReportDrawing& drawing, ReportData& data);

}  // namespace attest
