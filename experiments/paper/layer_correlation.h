// Figure "Layer-wise correlation": rank correlation of estimates with exact scores, by layer.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment layer_correlation();

}  // namespace attest
