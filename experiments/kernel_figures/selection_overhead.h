// Table 'Per-head selection latency at matched keep ratio'.
#pragma once

#include "experiments/kernel_figures/kernel_experiments.h"

namespace attest {

KernelExperiment selection_overhead();

}  // namespace attest
