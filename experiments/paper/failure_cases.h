// Table "Failure-case profiling": what flat and multi-peaked heads do to keep ratio and hit rate.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment failure_case_profiling();

}  // namespace attest
