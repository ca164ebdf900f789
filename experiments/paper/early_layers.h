// Whether the first two layers need an exception: each selector there and in the other layers.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment early_layers();

}  // namespace attest
