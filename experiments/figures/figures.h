// The paper's tables and figures, one source each; they are made from results files and requested by name.
#pragma once

#include <vector>

#include "experiments/study_view/figure_run.h"

/// Every experiment, in the paper's order: NAME.cpp in this folder has NAME_experiment(), which describes it. A new one
/// is such a source and a line below.
#define ATTEST_FIGURES(FIGURE) \
  FIGURE(quality_vs_io)        \
  FIGURE(quality_ladder)       \
  FIGURE(layer_correlation)    \
  FIGURE(early_layers)         \
  FIGURE(layer_sparsity)       \
  FIGURE(pseudo_max_gap)       \
  FIGURE(headwise)             \
  FIGURE(failure_cases)        \
  FIGURE(error_bound)          \
  FIGURE(kv_formats)           \
  FIGURE(kv_range)             \
  FIGURE(guarantee)            \
  FIGURE(rule_comparison)      \
  FIGURE(delta_validation)     \
  FIGURE(task_fidelity)        \
  FIGURE(span_keep)            \
  FIGURE(span_attribution)     \
  FIGURE(head_weights)

namespace attest {

#define ATTEST_DECLARE(name) Experiment name##_experiment();
ATTEST_FIGURES(ATTEST_DECLARE)
#undef ATTEST_DECLARE

const std::vector<Experiment>& experiments();

/// Computes what was asked, without writing files; nothing is made if the results support nothing. Several studies
/// (models, tasks, lengths) become rows of panels of one figure, or figures of their own if that would be too many.
FigureReport make_experiments(const std::vector<ModelStudy>& studies, const FigureRequest& request);

}  // namespace attest
