// What a verdict guarantees about prompts, and the evidence that a sample of prompts gives for it (README.md,
// "Guarantees").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/statistics/binomial.h"
#include "analysis/statistics/mean_bound.h"
#include "analysis/validation/target.h"
#include "dumps/base/enum_names.h"

namespace attest {

enum class GuaranteeKind : std::uint8_t { prompts, mean, observed };
inline constexpr EnumName<GuaranteeKind> kGuaranteeNames[] = {
    {GuaranteeKind::prompts, "prompts"}, {GuaranteeKind::mean, "mean"}, {GuaranteeKind::observed, "observed"}};

struct Guarantee {
  GuaranteeKind kind = GuaranteeKind::prompts;
  double confidence = 0.95;
  double max_violating = 0.1;  ///< beta; prompts and observed
  MeanBound bound = MeanBound::wsr;
  std::optional<double> clip = {};  ///< R of the mean; empty: ten times the allowed mean deficit
  std::uint64_t seed = 0;           ///< of the order in which `wsr` bets, and of the bootstrap

  /// With room for rounding: a probability that is 1 - confidence exactly is at most this.
  double alpha() const { return (1 - confidence) * (1 + 1e-12); }
  /// Whether it can certify anything: what is observed infers nothing, and the bootstrap holds no level.
  bool certifies() const {
    return kind != GuaranteeKind::observed && !(kind == GuaranteeKind::mean && bound == MeanBound::bootstrap);
  }
  /// R for this target.
  double clip_of(const Target& target) const { return clip ? *clip : 10 * target.allowed_deficit(); }
};

/// Throws UsageError if the guarantee cannot be made about the targets: confidence or beta outside (0, 1), a mean of
/// what has no deficit or may have none.
void check_guarantee(const Guarantee& guarantee, std::span<const Target> targets);

enum class Certainty : std::uint8_t {
  certified,
  refuted,
  undecided,
  /// Of guarantees that certify nothing: these prompts meet the targets, or do not.
  shown,
  not_shown,
  /// Beyond the end of a sequence of tests.
  not_tested,
};
std::string_view name_of(Certainty certainty);
/// Whether a sequence of tests goes on after it.
inline bool passes(Certainty certainty) { return certainty == Certainty::certified || certainty == Certainty::shown; }

/// What the prompts say of one target alone. A prompt without a number for it does not count.
struct TargetEvidence {
  std::int64_t prompts = 0, violations = 0;
  double mean_deficit = 0;          ///< not clipped; NaN if the target has none
  std::int64_t beyond_clip = 0;     ///< prompts whose deficit exceeds R
  double beyond_clip_at_most = 1;   ///< exact upper bound on their share, at the guarantee's confidence
  double p_value = 1;               ///< of "the target is missed too often" (prompts) or "on the mean" (mean)
  std::optional<double> passes_at;  ///< find_passing_values()
};

/// What the prompts say of one setting.
struct Evidence {
  std::int64_t prompts = 0;     ///< n: those that count for at least one target
  std::int64_t violations = 0;  ///< k: those that miss at least one
  ShareInterval share;          ///< of violating prompts, two-sided, at the guarantee's confidence
  std::vector<TargetEvidence> targets;
  double p_value = 1;  ///< of the guarantee's contrary; it holds for all targets together
  Certainty certainty = Certainty::undecided;
};

/// The numbers of the prompts at one setting, [prompt][target], NaN where a prompt does not count. Prompts are in an
/// order that does not depend on their numbers.
using PromptNumbers = std::vector<std::vector<double>>;

/// Level: each target is tested on the prompts that count for it, and all targets together on all prompts; the
/// guarantee is certified if every one of these tests rejects at alpha, so that no correction is needed. It is refuted
/// if any of them fails in turn, for which they share alpha.
Evidence judge(const PromptNumbers& numbers, std::span<const Target> targets, const Guarantee& guarantee);

/// Where the fixed sequence of tests ends (README.md, "Choosing a setting").
struct SequenceEnd {
  std::optional<std::size_t> passed = {};   ///< the last one that passed before the first that did not
  std::optional<std::size_t> stopped = {};  ///< the first that did not pass
};
SequenceEnd end_of_sequence(std::span<const Certainty> safest_first);

/// TargetEvidence::passes_at of every target: stricter values that the same prompts would certify, all together. Of the
/// prompts that may violate, those are left out that are farthest from the targets. For `mean` it takes some time.
void find_passing_values(const PromptNumbers& numbers, std::span<const Target> targets, const Guarantee& guarantee,
                         Evidence& evidence);

/// The number of prompts that certify or refute the guarantee if further prompts do as these did. It includes prompts
/// that do not count for a target. Empty if no number up to a million is enough (100,000 for `mean`), or if nothing can
/// be certified.
std::optional<std::int64_t> prompts_to_decide(const PromptNumbers& numbers, const Evidence& evidence,
                                              std::span<const Target> targets, const Guarantee& guarantee);

/// The fewest prompts that can certify the guarantee at all.
std::int64_t fewest_prompts(const Guarantee& guarantee, std::span<const Target> targets);

}  // namespace attest
