// Figure 'Kernel latency vs. sequence length'.
#pragma once

#include "experiments/kernel_figures/kernel_experiments.h"

namespace attest {

KernelExperiment kernel_latency();

}  // namespace attest
