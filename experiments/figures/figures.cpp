// The list of experiments, and what they make of results files.
#include "experiments/figures/figures.h"

#include <algorithm>

namespace attest {

const std::vector<Experiment>& experiments() {
#define ATTEST_CALL(name) name##_experiment(),
  static const std::vector<Experiment> list = {ATTEST_FIGURES(ATTEST_CALL)};
#undef ATTEST_CALL
  return list;
}

FigureReport make_experiments(const std::vector<ModelStudy>& studies, const FigureRequest& request) {
  FigureReport report;
  std::vector<const Experiment*> chosen;
  for (const Experiment& experiment : experiments())
    if (request.only.empty() || std::ranges::count(request.only, experiment.name) > 0) chosen.push_back(&experiment);
  std::size_t done = 0;
  for (const Experiment* one : chosen) {
    const Experiment& experiment = *one;
    std::vector<StudyOutcome> outcomes;
    for (const ModelStudy& study : studies) {
      outcomes.push_back({study.title(), experiment.make(study, request.options)});
      if (request.progress) request.progress(++done, chosen.size() * studies.size());
    }
    add_outcomes(experiment.name, experiment.paper, std::move(outcomes), kRunCommand, report);
  }
  return report;
}

}  // namespace attest
