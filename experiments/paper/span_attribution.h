// Which heads lose the answer at which setting.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment span_attribution();

}  // namespace attest
