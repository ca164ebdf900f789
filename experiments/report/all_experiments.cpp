// Lists experiments, and makes them, one kind of input after the other.
#include "experiments/report/all_experiments.h"

#include "experiments/bench/kernel/kernel_experiments.h"
#include "experiments/bench/model/throughput.h"
#include "experiments/failure_prediction/failure_prediction.h"
#include "experiments/figures/figures.h"

namespace attest {

std::vector<ExperimentInfo> all_experiments() {
  std::vector<ExperimentInfo> all;
  for (const Experiment& each : experiments()) all.push_back({each.name, each.paper, each.needs});
  all.push_back(kFailurePrediction);
  for (const KernelExperiment& each : kernel_experiments()) all.push_back({each.name, each.paper, each.needs});
  all.push_back(kThroughput);
  return all;
}

ExperimentInputs read_inputs(FigureInputs files, ResultsArguments& results, const std::vector<std::string>& only) {
  ExperimentInputs inputs;
  inputs.model_benches = read_model_benches(take_model_benches(files.benches));
  inputs.benches = read_kernel_studies(files.benches);
  inputs.tasks = read_tasks_files(files.tasks);
  inputs.results = results.open(files.results);
  check_failure_prediction(inputs.results, inputs.tasks, only);
  return inputs;
}

FigureReport make_all_experiments(const ExperimentInputs& inputs, const std::vector<ModelStudy>& studies,
                                  const FigureRequest& request) {
  FigureReport report = make_experiments(studies, request);
  add_failure_prediction(inputs.results, inputs.tasks, request, report);
  add_kernel_experiments(inputs.benches, request, report);
  add_throughput(inputs.model_benches, request, report);
  return report;
}

}  // namespace attest
