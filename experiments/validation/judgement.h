// Everything that a verdict is told from: prompts, request, and what was found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/validation/unit_validation.h"
#include "analysis/validation/validation.h"

namespace attest {

/// A results file that was judged.
struct JudgedFile {
  std::string path, content_hash;
};

struct Judgement {
  std::vector<JudgedFile> results;
  PromptSet set;
  ValidationRequest request;
  Validation single;  ///< one setting for the whole model
  UnitRequest unit_request = {};
  std::optional<UnitValidation> units = {};  ///< --per layer, --per kv_head
  /// Tokens that the verdict is meant for although no prompt is as short or as long (--extrapolate).
  std::optional<std::int64_t> extrapolated_to = {};

  /// The verdict on the units if there are any, else on the single setting.
  Certainty certainty() const { return units ? units->certainty : single.certainty; }
  /// What was chosen among: "settings" or "candidates".
  const char* choices() const { return set.candidates.empty() ? "settings" : "candidates"; }
  /// Whether one setting for all passed and reads no more than the units' assignment.
  bool single_reads_less() const { return units && single.passed && single.about().io <= units->about().io; }
  /// The evidence of the setting or assignment that the verdict is about, and of the one in the way.
  const Evidence& evidence() const;
  const Evidence& evidence_in_the_way() const;
  const PromptNumbers& numbers() const { return units ? units->numbers : single.numbers; }
  const Offenders& offenders() const { return units ? units->offenders : single.offenders; }
  std::optional<std::int64_t> prompts_to_decide() const {
    return units ? units->prompts_to_decide : single.prompts_to_decide;
  }
  bool stopped() const { return units ? units->stopped.has_value() : single.stopped.has_value(); }

  /// A setting of the grid as typed; "dense" for kDense.
  const std::string& label(std::size_t setting) const;
  /// "delta 5"; "ffd" of a selector without settings; a candidate as typed.
  std::string setting_text(std::size_t setting) const;
};

/// "with 95 % confidence at most 10 % of prompts like these miss recall>=0.999"
std::string guarantee_sentence(const Judgement& judgement);

/// The name of what counts once: "prompts"; "groups of prompts of one document" with --cluster document.
std::string units_text(const PromptSet& set);

/// "60 prompts", "1 prompt"; "12 groups of prompts of one document".
std::string counted_units(const PromptSet& set, std::int64_t count);

/// "2", "2 to 4"
std::string range_text(std::int64_t low, std::int64_t high);

/// The fewest and the most queries of a prompt. Nothing of answers alone.
std::optional<std::pair<std::int64_t, std::int64_t>> judged_queries(const PromptSet& set);

/// What the prompts are: "of the tasks kv, mk with 2048 to 4100 tokens".
std::string scope_text(const PromptSet& set);

}  // namespace attest
