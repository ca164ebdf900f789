// Figure "Error bound": the concentration theorem and the false-negative bound beside what is measured.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment error_bound();

}  // namespace attest
