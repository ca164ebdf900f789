// The list of experiments.
#include "experiments/paper/experiments.h"

#include "experiments/paper/delta_validation.h"
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

namespace attest {

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> list = {quality_vs_io(),  quality_ladder(),        layer_correlation(),
                                               pseudo_max_gap(), layer_sparsity(),        delta_validation(),
                                               guarantee(),      error_bound(),           rule_comparison(),
                                               headwise(),       failure_case_profiling()};
  return list;
}

}  // namespace attest
