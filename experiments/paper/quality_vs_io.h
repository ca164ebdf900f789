// Figure "Quality vs. IO budget": mean recall and maximal LSE error against bytes read and against tokens kept.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment quality_vs_io();

}  // namespace attest
