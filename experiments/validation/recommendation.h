// The recommendation file: certified settings, read back by selectors through their option settings_file.
#pragma once

#include <string>
#include <string_view>

#include "dumps/base/json.h"
#include "experiments/validation/judgement.h"

namespace attest {

/// What is guaranteed, with its evidence: {sentence, kind, targets, confidence, beta, n, k, p_value, ...}. A guarantee
/// of a mean has {bound, clip, given_clip} instead of beta.
Json guarantee_json(const Judgement& judgement);

/// The kind of setting of a recommendation of candidates.
inline constexpr std::string_view kLabelSettings = "label";

/// "delta"; kLabelSettings if there are candidates.
std::string_view setting_kind_name(const PromptSet& set);

/// A setting as JSON: a number, or "12.5%", "inf", "dense"; a candidate as its text.
Json setting_json(const Judgement& judgement, std::size_t setting);

/// [{path, kContentHashName}] of the results.
Json results_json(const Judgement& judgement);

/// {name, label, options}; null if there are candidates.
Json selector_json(const PromptSet& set);

/// The file of a certified judgement (format: experiments/manual/validate.md).
Json recommendation_json(const Judgement& judgement, const std::string& program);

}  // namespace attest
