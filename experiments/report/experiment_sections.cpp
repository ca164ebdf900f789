// Turns the results of experiments into sections: which of them a page has, and which were left out.
#include "experiments/report/experiment_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "experiments/outcomes/failure_prediction.h"
#include "experiments/paper/figure_run.h"

namespace attest {

void add_experiment_sections(ResultsFiles files, const std::vector<KernelStudy>& benches,
                             const std::vector<TasksFile>& tasks, const std::vector<std::string>& only,
                             const ExperimentOptions& options, ReportDrawing& drawing, ReportData& data) {
  FigureRequest request;
  request.only = only;
  request.options = options;
  FigureReport report = make_experiments(files, request);
  add_failure_prediction(files, tasks, request, report);
  add_kernel_experiments(benches, request, report);
  std::map<std::string, int> sections;
  for (const ExperimentMade& made : report.made) {
    const int number = ++sections[made.experiment];
    const std::string id = number == 1 ? made.experiment : fmt::format("{}-{}", made.experiment, number);
    ReportSection section = result_section(made, id, data.models.size() > 1, drawing);
    // What quality_vs_io says of selectors at the papers' settings are findings of the study already.
    if (made.experiment != "quality_vs_io")
      std::ranges::copy_if(section.findings, std::back_inserter(data.findings),
                           [](const ReportFinding& finding) { return finding.severity >= Severity::warning; });
    data.figures.push_back(std::move(section));
  }
  for (const ExperimentSkipped& s : report.skipped) drawing.note(fmt::format("Left out: {}.", s.text()));
}

}  // namespace attest
