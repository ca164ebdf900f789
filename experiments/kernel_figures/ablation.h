// Table 'Component-wise ablation'.
#pragma once

#include "experiments/kernel_figures/kernel_experiments.h"

namespace attest {

KernelExperiment ablation();

}  // namespace attest
