// Sentences about evidence, costs and coverage, of which the lines of a verdict are made.
#pragma once

#include <string>
#include <vector>

#include "experiments/validation/judgement.h"

namespace attest {

/// "keeps 80.2 % of the tokens and reads 67.9 % of the bytes of dense attention"
std::string costs_text(double keep, double io);

/// "layer", "KV head"
std::string unit_name(UnitKind kind);

/// "100 at 5, 28 dense": how many units have each setting.
std::string assignment_text(const Judgement& judgement, const Assignment& assignment);

/// "3 of 30 prompts violate (share 2.1 % to 26.5 %, p = 0.65)"
std::string evidence_text(const Judgement& judgement, const Evidence& evidence);

/// Says how many prompts would decide what is undecided; empty if it is decided.
std::string decision_text(const Judgement& judgement);

/// Says what ended the choice: "at delta 4.75 3 of 30 prompts violate: undecided; ...".
std::string stop_text(const Judgement& judgement);

/// The stricter targets that the same prompts would certify together: "recall.min >= 0.9996, ...".
std::string passes_text(const Judgement& judgement);

/// Says, for a mean, how many prompts lie beyond the clip.
std::string beyond_text(const Judgement& judgement);

/// "kv 1 of 12, mk 0 of 12"
std::string groups_text(const std::vector<PromptGroup>& groups);

/// "layer 13, head 5, prompt niah_3, query 4095: recall 0.981 < 0.999 at delta 5; delta 7.25 would do"
std::string offender_text(const Judgement& judgement, const Offender& offender);

/// Says why prompts do not count for some target, one sentence each.
std::vector<std::string> uncounted_prompts(const Judgement& judgement);

/// Which queries were judged, what no verdict on them says, and what counts as independent.
std::string coverage_text(const Judgement& judgement);

/// "kv_1, kv_7 at delta 3": the prompts answered wrong at the setting in the way; empty if there are none.
std::string wrong_answers_text(const Judgement& judgement);

/// The engines that the dumps of the prompts were captured from, with their KV caches; empty if no dump records one.
std::string engines_text(const PromptSet& set);

/// Says what as many prompts can certify at best, and how many the guarantee takes.
std::string power_text(const Judgement& judgement);

}  // namespace attest
