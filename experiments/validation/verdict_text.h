// A verdict in words that a person can paste into a message.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/validation/judgement.h"

namespace attest {

/// Offenders on the terminal.
inline constexpr std::size_t kShownOffenders = 10;

/// "certified: delta 5 of ffd for Llama-3.1-8B"
std::string verdict_heading(const Judgement& judgement);

/// A further line of a verdict, a name and a text that makes sense alone: {"guarantee", "with 95 % ..."}.
struct VerdictLine {
  std::string name, text;
};
std::vector<VerdictLine> verdict_lines(const Judgement& judgement);

/// Several lines, each of which makes sense alone. The first is the verdict, the last are offenders.
std::string verdict_text(const Judgement& judgement);

/// Says what `verdicts` verdicts of one call guarantee together, and what they do not. Empty for one.
std::string together_text(std::size_t verdicts, const Guarantee& guarantee);

}  // namespace attest
