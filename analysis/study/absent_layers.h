// Notices about layers that options name and no model of the study has.
#pragma once

#include <string>
#include <vector>

#include "analysis/study/study.h"

namespace attest {

/// A sentence for each selector that leaves layers dense by number of which the largest is in no dump's model: it may
/// be a slip, and has no effect.
std::vector<std::string> absent_layer_notices(const Study& study);

}  // namespace attest
