// The fast question before a study: is there any NaN or infinity? Where it is, value_check.h tells.
#pragma once

#include "dumps/attention_layer.h"

namespace attest {

/// Of q, k and v.
bool all_finite(const AttentionLayer& layer);

}  // namespace attest
