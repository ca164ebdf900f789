// Gathers what a report shows from results files.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/all_experiments.h"
#include "experiments/report/report_data.h"
#include "experiments/report/worst_cells.h"
#include "experiments/validation/judge_results.h"

namespace attest {

struct ReportOptions {
  std::string title;              ///< empty: from the models' names
  int threads = 1;                ///< at least 1
  std::vector<std::string> only;  ///< names of experiments; empty: all
  WorstCellOptions cells;
  std::function<void(std::size_t done, std::size_t total)> progress = {};  ///< of its figures
  std::optional<JudgementOptions> validation = {};                         ///< judge selectors so; empty: do not
};

/// Figures are drawn in `folder`, which is left full of files. Throws InputError when there is nothing to report.
ReportData gather_report(const ExperimentInputs& inputs, const ReportOptions& options,
                         const std::filesystem::path& folder);

}  // namespace attest
