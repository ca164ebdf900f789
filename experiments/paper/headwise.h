// Table "Head-wise variation under fixed delta", and maps of layers and heads.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment headwise();

}  // namespace attest
