// A verdict for programs: JSON and csv.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "experiments/validation/judgement.h"

namespace attest {

/// Everything that was found (keys: README.md, "Output").
nlohmann::ordered_json verdict_json(const Judgement& judgement);

/// The same as text that is valid UTF-8 whatever names the results have.
std::string verdict_json_text(const Judgement& judgement);

/// The offenders, one per line: prompt, task, tokens, layer, head, query_position, target, value, setting, enough.
std::string offenders_csv(const Judgement& judgement);

}  // namespace attest
