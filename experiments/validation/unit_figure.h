// The figure `validation_units`: the settings of layers or KV heads, and the way of their family.
#pragma once

#include "experiments/validation/judgement.h"
#include "plots/figure.h"

namespace attest {

/// The figure of a judgement that has units.
Figure unit_figure(const Judgement& judgement);

}  // namespace attest
