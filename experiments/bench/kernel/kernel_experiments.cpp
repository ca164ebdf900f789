// The list of experiments on kernels, and their results.
#include "experiments/bench/kernel/kernel_experiments.h"

#include <algorithm>

namespace attest {

const std::vector<KernelExperiment>& kernel_experiments() {
  static const std::vector<KernelExperiment> list = {kernel_latency(), selection_overhead(), quant_depth(), ablation()};
  return list;
}

void add_kernel_experiments(const std::vector<KernelStudy>& studies, const FigureRequest& request,
                            FigureReport& report) {
  for (const KernelExperiment& experiment : kernel_experiments()) {
    const bool by_name = std::ranges::count(request.only, experiment.name) > 0;
    if (!by_name && (studies.empty() || !request.only.empty())) continue;
    if (studies.empty()) {
      report.skipped.push_back(
          {.experiment = experiment.name, .reason = "needs a file of attest bench kernel", .command = kKernelCommand});
      continue;
    }
    std::vector<StudyOutcome> outcomes;
    for (const KernelStudy& study : studies)
      outcomes.push_back({study.title(), experiment.make(study, request.options)});
    add_outcomes(experiment.name, experiment.paper, std::move(outcomes), kKernelCommand, report);
  }
}

}  // namespace attest
