// Notices about contexts that are so short that a selector drops nothing. Its perfect results could otherwise be
// mistaken for fidelity.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/study/study.h"

namespace attest {

/// The sliding window of a layer of a sample, 0: none.
using WindowOf = std::function<std::int64_t(const UnitKey&)>;

/// Sentences about settings at which a selector drops or quantises nothing because queries see too few keys: "selector
/// 'quest' keeps every key at budget 1024 for all 4 queries, which see 512 keys at most". Settings of 100% are skipped,
/// since they keep every key on purpose. Layers whose sliding window shortens a context have sentences of their own,
/// which say how many layers these are.
std::vector<std::string> short_context_notices(const Study& study, const WindowOf& window_of);

}  // namespace attest
