// Evidence for the guarantees: binomial tests of violating prompts, tests of mean deficits.
#include "analysis/validation/guarantee.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "analysis/validation/guarantee_tests.h"
#include "dumps/base/error.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

TargetEvidence evidence_of(const PromptNumbers& numbers, std::size_t index, const Target& target,
                           const Guarantee& guarantee) {
  const std::vector<double> values = counted(numbers, index);
  TargetEvidence evidence{.prompts = static_cast<std::int64_t>(values.size()), .passes_at = {}};
  evidence.violations = std::ranges::count_if(values, [&](double x) { return !target.is_met_by(x); });
  evidence.mean_deficit = kNaN;
  if (target.has_deficit() && !values.empty()) {
    double sum = 0;
    for (const double x : values) sum += target.deficit(x);
    evidence.mean_deficit = sum / static_cast<double>(values.size());
  }
  if (guarantee.kind != GuaranteeKind::mean) {
    evidence.p_value = binomial_cdf(evidence.violations, evidence.prompts, guarantee.max_violating);
    return evidence;
  }
  const double clip = guarantee.clip_of(target);
  evidence.beyond_clip = std::ranges::count_if(values, [&](double x) { return target.deficit(x) > clip; });
  evidence.beyond_clip_at_most = share_upper_bound(evidence.beyond_clip, evidence.prompts, guarantee.confidence);
  evidence.p_value = mean_p(losses_of(values, target, clip), target.allowed_deficit() / clip, guarantee);
  return evidence;
}

bool is_refuted(const PromptNumbers& numbers, const Evidence& evidence, std::span<const Target> targets,
                const Guarantee& guarantee) {
  const double level = refuting_level(evidence, guarantee);
  if (guarantee.kind == GuaranteeKind::prompts) {
    const auto refutes = [&](std::int64_t k, std::int64_t n) {
      return binomial_upper_tail(k, n, guarantee.max_violating) <= level;
    };
    return refutes(evidence.violations, evidence.prompts) ||
           std::ranges::any_of(evidence.targets, [&](const TargetEvidence& target) {
             return refutes(target.violations, target.prompts);
           });
  }
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const double clip = guarantee.clip_of(targets[t]);
    if (mirrored_p(losses_of(counted(numbers, t), targets[t], clip), targets[t].allowed_deficit() / clip, guarantee) <=
        level)
      return true;
  }
  return false;
}

}  // namespace

std::string_view name_of(Certainty certainty) {
  constexpr std::string_view kNames[] = {"certified", "refuted", "undecided", "shown", "not shown", "not tested"};
  return kNames[static_cast<std::size_t>(certainty)];
}

void check_guarantee(const Guarantee& guarantee, std::span<const Target> targets) {
  if (!(guarantee.confidence > 0 && guarantee.confidence < 1))
    throw UsageError(fmt::format("--confidence: {} is not above 0 and below 1", guarantee.confidence));
  const bool zero_is_valid = guarantee.kind == GuaranteeKind::observed;
  if (!(guarantee.max_violating < 1 && (zero_is_valid ? guarantee.max_violating >= 0 : guarantee.max_violating > 0)))
    throw UsageError(fmt::format(
        "--max-violating: {} is not {} 0 and below 1{}", guarantee.max_violating, zero_is_valid ? "at least" : "above",
        guarantee.max_violating == 0 ? "; no number of prompts shows that none ever violates" : ""));
  if (guarantee.kind != GuaranteeKind::mean) return;
  for (const Target& target : targets) {
    if (target.of_answers())
      throw UsageError("--claim mean: an answer is right or wrong; --claim prompts judges the share of wrong ones");
    if (!target.has_deficit())
      throw UsageError(
          fmt::format("--claim mean: '{}' has no deficit with a best value, so that its mean cannot be "
                      "bounded; --claim prompts judges it",
                      target.text));
    if (!(target.allowed_deficit() > 0))
      throw UsageError(fmt::format("--claim mean: '{}' allows no deficit at all, which no number of prompts certifies",
                                   target.text));
    if (!(guarantee.clip_of(target) > target.allowed_deficit()))
      throw UsageError(fmt::format("--clip: {} is not above {}, the deficit that '{}' allows",
                                   guarantee.clip_of(target), target.allowed_deficit(), target.text));
  }
}

Evidence judge(const PromptNumbers& numbers, std::span<const Target> targets, const Guarantee& guarantee) {
  Evidence evidence{.share = {}, .targets = {}};
  for (const std::vector<double>& prompt : numbers) {
    bool counts = false, misses = false;
    for (std::size_t t = 0; t < targets.size(); ++t) {
      counts = counts || !std::isnan(prompt[t]);
      misses = misses || (!std::isnan(prompt[t]) && !targets[t].is_met_by(prompt[t]));
    }
    evidence.prompts += counts ? 1 : 0;
    evidence.violations += misses ? 1 : 0;
  }
  evidence.share = clopper_pearson(evidence.violations, evidence.prompts, guarantee.confidence);
  const bool by_share = guarantee.kind != GuaranteeKind::mean;
  evidence.p_value = by_share ? binomial_cdf(evidence.violations, evidence.prompts, guarantee.max_violating) : 0;
  bool all_within = within(evidence.violations, evidence.prompts, guarantee.max_violating), all_seen = true;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const TargetEvidence& target = evidence.targets.emplace_back(evidence_of(numbers, t, targets[t], guarantee));
    evidence.p_value = std::max(evidence.p_value, target.p_value);
    all_within = all_within && within(target.violations, target.prompts, guarantee.max_violating);
    all_seen = all_seen && target.prompts > 0;
  }
  const bool met =
      guarantee.kind == GuaranteeKind::observed ? all_within && all_seen : evidence.p_value <= guarantee.alpha();
  if (!guarantee.certifies())
    evidence.certainty = met ? Certainty::shown : Certainty::not_shown;
  else if (met)
    evidence.certainty = Certainty::certified;
  else if (is_refuted(numbers, evidence, targets, guarantee))
    evidence.certainty = Certainty::refuted;
  return evidence;
}

SequenceEnd end_of_sequence(std::span<const Certainty> safest_first) {
  const auto end = static_cast<std::size_t>(
      std::ranges::find_if(safest_first, [](Certainty one) { return !passes(one); }) - safest_first.begin());
  SequenceEnd sequence;
  if (end > 0) sequence.passed = end - 1;
  if (end < safest_first.size()) sequence.stopped = end;
  return sequence;
}

}  // namespace attest
