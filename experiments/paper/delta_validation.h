// Figures and table "Validation of delta": what each delta costs and keeps, and the smallest one that is good enough.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment delta_validation();

}  // namespace attest
