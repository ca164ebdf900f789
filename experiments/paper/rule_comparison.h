// Figure "Comparison of top-k, top-p and top-delta": kept sets and recall over distributions of different entropy.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment rule_comparison();

}  // namespace attest
