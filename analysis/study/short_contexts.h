// Settings at which a context is too short for a selector to leave anything out: readers would take that for fidelity.
#pragma once

#include <string>
#include <vector>

#include "analysis/study/study.h"

namespace attest {

/// Sentences about settings at which a selector cannot leave anything out, or quantises nothing, because queries see
/// too few keys: "selector 'quest' keeps every key at budget 1024 for all 4 queries, which see 512 keys at most". A
/// budget of 100% is meant to, and is passed over. Sliding windows, which make contexts shorter still, are not looked
/// at.
std::vector<std::string> short_context_notices(const Study& study);

}  // namespace attest
