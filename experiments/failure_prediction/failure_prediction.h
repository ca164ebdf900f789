// Experiment failure_prediction: how well the metrics of a dump tell failed answers from right ones. It needs results
// of `attest run` and files of `attest tasks` for the same prompts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analysis/outcomes/tasks_file.h"
#include "experiments/study_view/figure_run.h"

namespace attest {

inline const ExperimentInfo kFailurePrediction{"failure_prediction",
                                               "Open question: which metrics predict a failed answer",
                                               "results, and files of attest tasks for the same prompts"};

/// Throws InputError if a file is no tasks file, UsageError if one is named twice.
std::vector<TasksFile> read_tasks_files(const std::vector<std::string>& paths);

/// Throws InputError if the experiment is requested, and results and tasks have nothing in common or an answer twice.
void check_failure_prediction(ResultsFiles results, const std::vector<TasksFile>& tasks,
                              const std::vector<std::string>& only);

/// Adds the experiment to `report` if it is requested and there are tasks files; without them only if it is requested
/// by name, as skipped. All models are one study: a threshold must hold for others, too. Throws as
/// check_failure_prediction().
void add_failure_prediction(ResultsFiles results, const std::vector<TasksFile>& tasks, const FigureRequest& request,
                            FigureReport& report);

}  // namespace attest
