// Table and figure "Ladder of quality": from the mean to the worst cell.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment quality_ladder();

}  // namespace attest
