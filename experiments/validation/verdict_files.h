// A verdict for programs: JSON and csv.
#pragma once

#include <string>
#include <vector>

#include "dumps/base/json.h"
#include "experiments/validation/judgement.h"

namespace attest {

/// Everything that was found (keys: experiments/manual/validate.md).
Json verdict_json(const Judgement& judgement);

/// The verdict as JSON text, which is valid UTF-8 whatever names the results have.
std::string verdict_json_text(const Judgement& judgement);

/// One verdict as verdict_json_text(); several as {"verdicts": [...], "together": ...}.
std::string verdicts_json_text(const std::vector<Judgement>& judgements, const std::string& together);

/// The offenders, one per line: prompt, task, tokens, layer, head, query_position, target, value, setting, enough.
std::string offenders_csv(const Judgement& judgement);

}  // namespace attest
