// What each selector keeps of the evidence spans, against the bytes that it reads.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment span_keep();

}  // namespace attest
