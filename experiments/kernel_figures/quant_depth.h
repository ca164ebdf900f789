// Table 'Decode kernel latency under different quantization depths'.
#pragma once

#include "experiments/kernel_figures/kernel_experiments.h"

namespace attest {

KernelExperiment quant_depth();

}  // namespace attest
