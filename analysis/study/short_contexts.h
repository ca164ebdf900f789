// Notices about contexts that are so short that a selector drops nothing. Its perfect results could otherwise be
// mistaken for fidelity.
#pragma once

#include <string>
#include <vector>

#include "analysis/study/study.h"

namespace attest {

/// Sentences about settings at which a selector drops or quantises nothing because queries see too few keys: "selector
/// 'quest' keeps every key at budget 1024 for all 4 queries, which see 512 keys at most". Settings of 100% are skipped,
/// since they keep every key on purpose. Sliding windows, which shorten the context further, are ignored.
std::vector<std::string> short_context_notices(const Study& study);

}  // namespace attest
