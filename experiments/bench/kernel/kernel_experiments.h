// The paper's tables and figures of speed, one file each. They are made from files of `attest bench kernel`.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "experiments/bench/kernel/kernel_study.h"
#include "experiments/study_view/figure_run.h"

namespace attest {

/// As Experiment, but made from a bench; the options that Unsupported names are those of `attest bench kernel`.
struct KernelExperiment {
  std::string name, paper, needs;
  std::variant<ExperimentResult, Unsupported> (*make)(const KernelStudy& study, const ExperimentOptions& options);
};

/// One source each, named after the function.
KernelExperiment kernel_latency(), selection_overhead(), quant_depth(), ablation();

/// All experiments on kernels, in the paper's order.
const std::vector<KernelExperiment>& kernel_experiments();

/// Adds to `report` what the benches support of what is requested. Several benches become rows of panels of one figure,
/// or figures of their own if that would be too many. Without a bench only experiments that are requested by name are
/// named as skipped.
void add_kernel_experiments(const std::vector<KernelStudy>& studies, const FigureRequest& request,
                            FigureReport& report);

}  // namespace attest
