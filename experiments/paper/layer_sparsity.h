// Figure "Layer-wise sparsity": the share of blocks and of tokens that FFD skips in each layer, at delta 5 and 7.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment layer_sparsity();

}  // namespace attest
