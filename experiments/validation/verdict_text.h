// A verdict in words that a person can paste into a message.
#pragma once

#include <string>
#include <vector>

#include "experiments/validation/judgement.h"

namespace attest {

/// Offenders on the terminal.
inline constexpr std::size_t kShownOffenders = 10;

/// "certified: delta 5 of ffd for Llama-3.1-8B"
std::string verdict_heading(const Judgement& judgement);

/// What a verdict says besides, each a name and a text that makes sense alone: {"claim", "with 95 % confidence ..."}.
struct VerdictLine {
  std::string name, text;
};
std::vector<VerdictLine> verdict_lines(const Judgement& judgement);

/// Several lines, each of which makes sense alone. The first is the verdict, the last are
/// offenders.
std::string verdict_text(const Judgement& judgement);

/// "layer 13, head 5, prompt niah_3, query 4095: recall 0.981 < 0.999 at delta 5; delta 7.25 would do"
std::string offender_text(const Judgement& judgement, const Offender& offender);

/// "3 of 30 prompts violate (1.7 to 28 %, p = 0.65)"
std::string evidence_text(const Judgement& judgement, const Evidence& evidence);

/// Why prompts do not count for some target, one sentence each.
std::vector<std::string> uncounted_prompts(const Judgement& judgement);

}  // namespace attest
