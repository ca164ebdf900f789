// What a reader of a study would take for fidelity, and is only a short context.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analysis/layer/layer_study.h"
#include "analysis/study/study_plan.h"

namespace attest {

/// Sentences about settings at which a selector cannot leave anything out, or quantises nothing, because queries see
/// too few keys: "selector 'quest' keeps every key at budget 1024 for all 4 queries, which see 512 keys at most". A
/// budget of 100% is meant to, and is passed over. Sliding windows, which make contexts shorter still, are not looked
/// at.
std::vector<std::string> short_context_notices(const StudyPlan& plan, std::span<const StudySelector> selectors,
                                               std::span<const std::vector<std::string>> setting_labels);

}  // namespace attest
