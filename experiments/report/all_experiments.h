// All experiments, of every kind of input: their names, what they read, and what they make of it.
#pragma once

#include <string>
#include <vector>

#include "analysis/outcomes/tasks_file.h"
#include "experiments/bench/kernel/kernel_study.h"
#include "experiments/bench/model/model_bench.h"
#include "experiments/cli/options/results_arguments.h"
#include "experiments/study_view/figure_run.h"

namespace attest {

std::vector<ExperimentInfo> all_experiments();

struct ExperimentInputs {
  ResultsFiles results = {};
  std::vector<KernelStudy> benches = {};
  std::vector<ModelBench> model_benches = {};
  std::vector<TasksFile> tasks = {};
};

/// Reads the files; `results` opens the results and must outlive what is returned. Throws what the readers throw, and
/// InputError if an experiment among `only` cannot join its inputs.
ExperimentInputs read_inputs(FigureInputs files, ResultsArguments& results, const std::vector<std::string>& only);

/// Makes what is requested of the inputs, without writing files. `studies`: those of the results.
FigureReport make_all_experiments(const ExperimentInputs& inputs, const std::vector<ModelStudy>& studies,
                                  const FigureRequest& request);

}  // namespace attest
