// Figure "Distribution of m - m~ by layer": how far FFD's pseudo-max lies below the true maximum, and how
// often it lies above.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment pseudo_max_gap();

}  // namespace attest
