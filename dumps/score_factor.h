// The bounds of a factor or a bound of the scores, such as the softmax scale.
#pragma once

#include <string>

namespace attest {

/// What is wrong with it, as a GPU computes scores in float32: "is 1e-50, expected ..."; "": nothing.
std::string fault_of_score_factor(double value);

}  // namespace attest
