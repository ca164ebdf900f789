// The paper's figures as sections of a report.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/paper/experiments.h"
#include "plots/report/report_data.h"

namespace attest {

/// Makes the experiments `only` (empty: all), draws their figures in `folder`, which it may leave full
/// of files, and adds a section for each, and their findings. What cannot be made or drawn is said in
/// `data.figures_note`.
void add_experiment_sections(ResultsFiles files, const std::vector<std::string>& only, const ExperimentOptions& options,
                             const std::filesystem::path& folder, ReportData& data);

}  // namespace attest
