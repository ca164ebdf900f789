// Table of methods and tasks: fidelity where the paper has accuracy (RULER, LongBench).
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment task_fidelity();

}  // namespace attest
