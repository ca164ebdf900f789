// `attest validate` without its command line: judges settings of a selector on prompts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/validation/guarantee.h"
#include "analysis/validation/offenders.h"
#include "analysis/validation/prompt_set.h"
#include "analysis/validation/prompt_values.h"

namespace attest {

/// What the prompts say of one setting.
struct JudgedSetting {
  std::size_t setting = 0;  ///< index into the grid
  Evidence evidence;
  double keep = 0, io = 0;  ///< means over the prompts that have them of keep_ratio and io_ratio; NaN without any
};

/// Prompts of one task or of about one length.
struct PromptGroup {
  std::string name;
  std::int64_t prompts = 0, violations = 0;
};

struct Validation {
  std::vector<JudgedSetting> settings;  ///< those of the request, the safest first
  bool chosen = true;                   ///< the smallest setting that passes was looked for; else one was judged
  Certainty certainty = Certainty::undecided;
  /// Index into `settings`: the last that passed. It is certified, or shown where nothing can be certified.
  std::optional<std::size_t> passed = {};
  /// Index into `settings`: the first that did not pass, where the sequence ended. Those after it are not tested.
  std::optional<std::size_t> stopped = {};
  std::optional<std::int64_t> prompts_to_decide = {};  ///< of all prompts, at `stopped`; empty: none would do
  std::vector<PromptGroup> by_task, by_length;         ///< at about()
  Offenders offenders;                                 ///< at in_the_way()
  std::vector<std::size_t> wrong_answers = {};         ///< prompts, at in_the_way()
  PromptNumbers numbers = {};                          ///< of the units of evidence, at about()

  /// The setting that the verdict is about: the one that passed, else the first that was tested.
  const JudgedSetting& about() const { return settings[passed.value_or(0)]; }
  const JudgedSetting& in_the_way() const { return settings[stopped.value_or(passed.value_or(0))]; }
};

struct ValidationRequest {
  std::vector<Target> targets;
  Guarantee guarantee;
  std::optional<std::size_t> setting = {};  ///< judge this one, an index into the grid; empty: find the smallest
  std::vector<std::size_t> grid = {};       ///< look among these only; empty: all
  int threads = 1;
};

/// The offenders that a Validation holds at most.
inline constexpr std::size_t kMaxOffenders = 10'000;

/// By fixed sequence: settings are tested from the safest down, each at the full level; the first that is not certified
/// ends the sequence (README.md, "Choosing a setting"). Throws UsageError if the guarantee does not fit the targets,
/// InputError if no prompt counts for a target.
Validation validate(const PromptSet& set, const ValidationRequest& request);

/// By prompt. Prompts are numbered as in `numbers`.
std::vector<Miss> misses_of(const PromptNumbers& numbers, std::span<const Target> targets);

/// The numbers of all prompts at one setting.
PromptNumbers numbers_at(const std::vector<PromptValues>& values, std::size_t setting);

/// The numbers of the units of evidence: clusters of prompts, in the order in which `prompts` (indices into the set)
/// reach them. A cluster has the worst number of its prompts, and violates if any of them does; for `mean` their mean.
PromptNumbers numbers_of_clusters(const PromptSet& set, std::span<const std::size_t> prompts,
                                  const PromptNumbers& numbers, std::span<const Target> targets, GuaranteeKind kind);

/// Throws InputError if no prompt has a number for one of the targets.
void check_targets_apply(const PromptSet& set, const std::vector<PromptValues>& values,
                         const std::vector<Target>& targets);

}  // namespace attest
