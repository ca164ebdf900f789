// What a verdict claims about prompts, and the evidence that a sample of prompts gives for it (README.md, "Claims").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/statistics/binomial.h"
#include "analysis/statistics/mean_bound.h"
#include "analysis/validation/target.h"

namespace attest {

enum class ClaimKind : std::uint8_t { prompts, mean, observed };

struct Claim {
  ClaimKind kind = ClaimKind::prompts;
  double confidence = 0.95;
  double max_violating = 0.1;  ///< beta; prompts and observed
  MeanBound bound = MeanBound::wsr;
  std::optional<double> clip = {};  ///< R of the mean; empty: ten times the allowed mean deficit
  std::uint64_t seed = 0;           ///< of the order in which `wsr` bets, and of the bootstrap

  /// With room for rounding: a probability that is 1 - confidence exactly is at most this.
  double alpha() const { return (1 - confidence) * (1 + 1e-12); }
  /// R for this target.
  double clip_of(const Target& target) const { return clip ? *clip : 10 * target.allowed_deficit(); }
};

/// Throws UsageError if the claim cannot be made about the targets: confidence or beta outside (0, 1), a mean of what
/// has no deficit or may have none.
void check_claim(const Claim& claim, std::span<const Target> targets);

enum class Certainty : std::uint8_t { certified, refuted, undecided };
std::string_view name_of(Certainty certainty);

/// What the prompts say of one target alone. A prompt without a number for it does not count.
struct TargetEvidence {
  std::int64_t prompts = 0, violations = 0;
  double mean_deficit = 0;          ///< not clipped; NaN if the target has none
  std::int64_t beyond_clip = 0;     ///< prompts whose deficit exceeds R
  double beyond_clip_at_most = 1;   ///< exact upper bound on their share, at the claim's confidence
  double p_value = 1;               ///< of "the target is missed too often" (prompts) or "on the mean" (mean)
  std::optional<double> passes_at;  ///< the strictest value that these prompts would certify
};

/// What the prompts say of one setting.
struct Evidence {
  std::int64_t prompts = 0;     ///< n: those that count for at least one target
  std::int64_t violations = 0;  ///< k: those that miss at least one
  ShareInterval share;          ///< of violating prompts, two-sided, at the claim's confidence
  std::vector<TargetEvidence> targets;
  double p_value = 1;  ///< of the claim's contrary; the claim holds for all targets together
  Certainty certainty = Certainty::undecided;
};

/// The numbers of the prompts at one setting, [prompt][target], NaN where a prompt does not count. Prompts are in an
/// order that does not depend on their numbers.
using PromptNumbers = std::vector<std::vector<double>>;

/// Level: each target is tested on the prompts that count for it, and all targets together on all prompts; the claim is
/// certified if every one of these tests rejects at alpha, so that no correction is needed. It is refuted if any of
/// them fails in turn, for which they share alpha.
Evidence judge(const PromptNumbers& numbers, std::span<const Target> targets, const Claim& claim);

/// Where the fixed sequence of tests ends (README.md, "Choosing a setting").
struct SequenceEnd {
  std::optional<std::size_t> certified = {};  ///< the last one certified before the first that is not
  std::optional<std::size_t> stopped = {};    ///< the first that is not certified
};
SequenceEnd end_of_sequence(std::span<const Certainty> safest_first);

/// TargetEvidence::passes_at of every target; for `mean` it takes some time.
void find_passing_values(const PromptNumbers& numbers, std::span<const Target> targets, const Claim& claim,
                         Evidence& evidence);

/// With how many prompts the claim would be certified or refuted, if more prompts went on as these did. Empty if none
/// up to a million would do (100,000 for `mean`, 2000 for its bootstrap).
std::optional<std::int64_t> prompts_to_decide(const PromptNumbers& numbers, const Evidence& evidence,
                                              std::span<const Target> targets, const Claim& claim);

/// The fewest prompts that can certify the claim at all.
std::int64_t fewest_prompts(const Claim& claim, std::span<const Target> targets);

}  // namespace attest
