// The paper's figure of end-to-end throughput, from files of `attest bench model`.
#pragma once

#include <string>
#include <vector>

#include "experiments/bench/model/model_bench.h"
#include "experiments/study_view/figure_run.h"

namespace attest {

inline const ExperimentInfo kThroughput{"throughput", "Figure 'End-to-End Generation Throughput Comparison'",
                                        "a file of attest bench model"};

ExperimentResult throughput_of(const ModelBench& bench, const ExperimentOptions& options);

/// Adds the figure to `report` if it is requested and there is a bench. Several benches become rows of panels.
void add_throughput(const std::vector<ModelBench>& benches, const FigureRequest& request, FigureReport& report);

}  // namespace attest
