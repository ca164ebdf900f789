// The list of experiments.
#include "experiments/paper/experiments.h"

#include "experiments/paper/delta_validation.h"
#include "experiments/paper/early_layers.h"
#include "experiments/paper/error_bound.h"
#include "experiments/paper/failure_cases.h"
#include "experiments/paper/guarantee.h"
#include "experiments/paper/headwise.h"
#include "experiments/paper/layer_correlation.h"
#include "experiments/paper/layer_sparsity.h"
#include "experiments/paper/pseudo_max_gap.h"
#include "experiments/paper/quality_ladder.h"
#include "experiments/paper/quality_vs_io.h"
#include "experiments/paper/rule_comparison.h"
#include "experiments/paper/span_attribution.h"
#include "experiments/paper/span_keep.h"
#include "experiments/paper/task_fidelity.h"

namespace attest {

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> list = {
      quality_vs_io(),   quality_ladder(),   layer_correlation(),      early_layers(), layer_sparsity(),
      pseudo_max_gap(),  headwise(),         failure_case_profiling(), error_bound(),  guarantee(),
      rule_comparison(), delta_validation(), task_fidelity(),          span_keep(),    span_attribution()};
  return list;
}

}  // namespace attest
