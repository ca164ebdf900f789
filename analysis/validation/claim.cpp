// Evidence for the claims: binomial tests of violating prompts, tests of mean deficits.
#include "analysis/validation/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "dumps/base/error.h"

namespace attest {
namespace {

constexpr std::int64_t kMostPrompts = 1'000'000;

/// The numbers of one target, without the prompts that do not count.
std::vector<double> counted(const PromptNumbers& numbers, std::size_t target) {
  std::vector<double> values;
  for (const std::vector<double>& prompt : numbers)
    if (!std::isnan(prompt[target])) values.push_back(prompt[target]);
  return values;
}

/// The order in which `wsr` bets: one that the data do not choose.
void shuffle(std::vector<double>& values, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

/// Losses in [0, 1] of the deficits of `values`.
std::vector<double> losses_of(std::span<const double> values, const Target& target, double clip) {
  std::vector<double> losses;
  for (const double x : values) losses.push_back(std::min(target.deficit(x), clip) / clip);
  return losses;
}

double mean_p(std::vector<double> losses, double allowed, const Claim& claim) {
  shuffle(losses, claim.seed);
  return mean_p_value(claim.bound, losses, allowed, claim.alpha(), claim.seed);
}

/// p-value of "the expected loss is at most `allowed`": the same test of what is missing to a loss of 1.
double mirrored_p(std::vector<double> losses, double allowed, const Claim& claim) {
  for (double& loss : losses) loss = 1 - loss;
  return mean_p(std::move(losses), 1 - allowed, claim);
}

TargetEvidence evidence_of(const PromptNumbers& numbers, std::size_t index, const Target& target, const Claim& claim) {
  const std::vector<double> values = counted(numbers, index);
  TargetEvidence evidence{.prompts = static_cast<std::int64_t>(values.size()), .passes_at = {}};
  evidence.violations = std::ranges::count_if(values, [&](double x) { return !target.is_met_by(x); });
  evidence.mean_deficit = std::numeric_limits<double>::quiet_NaN();
  if (target.has_deficit() && !values.empty()) {
    double sum = 0;
    for (const double x : values) sum += target.deficit(x);
    evidence.mean_deficit = sum / static_cast<double>(values.size());
  }
  if (claim.kind != ClaimKind::mean) {
    evidence.p_value = binomial_cdf(evidence.violations, evidence.prompts, claim.max_violating);
    return evidence;
  }
  const double clip = claim.clip_of(target);
  evidence.beyond_clip = std::ranges::count_if(values, [&](double x) { return target.deficit(x) > clip; });
  evidence.beyond_clip_at_most = share_upper_bound(evidence.beyond_clip, evidence.prompts, claim.confidence);
  evidence.p_value = mean_p(losses_of(values, target, clip), target.allowed_deficit() / clip, claim);
  return evidence;
}

/// The level of each of the tests that can refute: any of them does, so that alpha is shared among them.
double refuting_level(const Evidence& evidence, const Claim& claim) {
  if (claim.kind == ClaimKind::mean) return claim.alpha() / static_cast<double>(evidence.targets.size());
  // Where all prompts count for a target, its violations are among those of all targets together.
  const auto own = std::ranges::count_if(
      evidence.targets, [&](const TargetEvidence& target) { return target.prompts < evidence.prompts; });
  return claim.alpha() / static_cast<double>(1 + own);
}

bool is_refuted(const PromptNumbers& numbers, const Evidence& evidence, std::span<const Target> targets,
                const Claim& claim) {
  const double level = refuting_level(evidence, claim);
  if (claim.kind == ClaimKind::prompts) {
    const auto refutes = [&](std::int64_t k, std::int64_t n) {
      return binomial_upper_tail(k, n, claim.max_violating) <= level;
    };
    return refutes(evidence.violations, evidence.prompts) ||
           std::ranges::any_of(evidence.targets, [&](const TargetEvidence& target) {
             return refutes(target.violations, target.prompts);
           });
  }
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const double clip = claim.clip_of(targets[t]);
    if (mirrored_p(losses_of(counted(numbers, t), targets[t], clip), targets[t].allowed_deficit() / clip, claim) <=
        level)
      return true;
  }
  return false;
}

/// Whether k of n are at most the allowed share: it is given in decimal, and 3 of 30 are 10 %.
bool within(std::int64_t k, std::int64_t n, double share) {
  return static_cast<double>(k) <= share * static_cast<double>(n) + 1e-9;
}

/// The smallest n in [from, kMostPrompts] that passes: found by doubling and halving, as nearly all larger ones pass.
template <class Passes>
std::optional<std::int64_t> smallest(std::int64_t from, Passes passes) {
  std::int64_t low = from - 1, high = std::max<std::int64_t>(from, 1);
  while (!passes(high)) {
    if (high >= kMostPrompts) return std::nullopt;
    low = high;
    high = std::min(2 * high, kMostPrompts);
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (passes(middle) ? high : low) = middle;
  }
  return high;
}

/// Prompts that decide a binomial test if the share k / n goes on. `refuting`: the level of a refutation.
std::optional<std::int64_t> prompts_for_share(std::int64_t k, std::int64_t n, const Claim& claim, double refuting) {
  if (n == 0) return std::nullopt;
  const double share = static_cast<double>(k) / static_cast<double>(n);
  const auto violations = [&](std::int64_t prompts) { return share * static_cast<double>(prompts); };
  if (share < claim.max_violating)
    return smallest(n, [&](std::int64_t m) {
      const auto more = static_cast<std::int64_t>(std::ceil(violations(m) - 1e-9));
      return binomial_cdf(more, m, claim.max_violating) <= claim.alpha();
    });
  return smallest(n, [&](std::int64_t m) {
    const auto fewer = static_cast<std::int64_t>(std::floor(violations(m) + 1e-9));
    return fewer > 0 && binomial_upper_tail(fewer, m, claim.max_violating) <= refuting;
  });
}

double mean_of(const std::vector<double>& losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

/// The same for a mean: the observed losses over and over.
std::optional<std::int64_t> prompts_for_mean(const std::vector<double>& losses, double allowed, const Claim& claim,
                                             double refuting) {
  // Each trial takes time that grows with it, 2000 times as much for the resamples of the bootstrap.
  const std::int64_t most = claim.bound == MeanBound::bootstrap ? 2000 : 100'000;
  if (losses.empty()) return std::nullopt;
  const bool certifies = mean_of(losses) <= allowed;
  const auto found = smallest(static_cast<std::int64_t>(losses.size()), [&](std::int64_t m) {
    if (m > most) return true;  // ends the search
    std::vector<double> repeated;
    for (std::int64_t i = 0; i < m; ++i) repeated.push_back(losses[static_cast<std::size_t>(i) % losses.size()]);
    return certifies ? mean_p(std::move(repeated), allowed, claim) <= claim.alpha()
                     : mirrored_p(std::move(repeated), allowed, claim) <= refuting;
  });
  return found && *found <= most ? found : std::nullopt;
}

/// The fewest prompts that show a share or a mean to be at most `allowed`: none of them with any loss.
std::int64_t fewest_zeros(double allowed, const Claim& claim) {
  return static_cast<std::int64_t>(std::ceil(std::log(claim.alpha()) / std::log1p(-allowed) - 1e-9));
}

/// The value of the target's number at which its deficit is `deficit`.
double value_at(const Target& target, double deficit) { return target.at_least ? 1 - deficit : deficit; }

std::optional<double> passing_share(std::vector<double> values, const Target& target, const Claim& claim) {
  std::int64_t most = -1;  // violations that still certify
  const auto n = static_cast<std::int64_t>(values.size());
  if (claim.kind == ClaimKind::observed)
    while (most + 1 < n && within(most + 1, n, claim.max_violating)) ++most;
  else
    while (most + 1 < n && binomial_cdf(most + 1, n, claim.max_violating) <= claim.alpha()) ++most;
  if (most < 0) return std::nullopt;
  if (target.at_least)
    std::ranges::sort(values);
  else
    std::ranges::sort(values, std::greater<>());
  return values[static_cast<std::size_t>(most)];
}

std::optional<double> passing_mean(const std::vector<double>& values, const Target& target, const Claim& claim) {
  if (values.empty()) return std::nullopt;
  const double clip = claim.clip_of(target);
  const std::vector<double> losses = losses_of(values, target, clip);
  const auto passes = [&](double allowed) { return mean_p(losses, allowed, claim) <= claim.alpha(); };
  double low = 0, high = 1;  // as shares of R
  if (!passes(1 - 1e-9)) return std::nullopt;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    (passes(middle) ? high : low) = middle;
  }
  return value_at(target, high * clip);
}

}  // namespace

std::string_view name_of(Certainty certainty) {
  constexpr std::string_view kNames[] = {"certified", "refuted", "undecided"};
  return kNames[static_cast<std::size_t>(certainty)];
}

void check_claim(const Claim& claim, std::span<const Target> targets) {
  if (!(claim.confidence > 0 && claim.confidence < 1))
    throw UsageError(fmt::format("--confidence: {} is not above 0 and below 1", claim.confidence));
  const bool zero_is_valid = claim.kind == ClaimKind::observed;
  if (!(claim.max_violating < 1 && (zero_is_valid ? claim.max_violating >= 0 : claim.max_violating > 0)))
    throw UsageError(fmt::format(
        "--max-violating: {} is not {} 0 and below 1{}", claim.max_violating, zero_is_valid ? "at least" : "above",
        claim.max_violating == 0 ? "; no number of prompts shows that none ever violates" : ""));
  if (claim.kind != ClaimKind::mean) return;
  for (const Target& target : targets) {
    if (!target.has_deficit())
      throw UsageError(
          fmt::format("--claim mean: '{}' has no deficit with a best value, so that its mean cannot be "
                      "bounded; --claim prompts judges it",
                      target.text));
    if (!(target.allowed_deficit() > 0))
      throw UsageError(fmt::format("--claim mean: '{}' allows no deficit at all, which no number of prompts certifies",
                                   target.text));
    if (!(claim.clip_of(target) > target.allowed_deficit()))
      throw UsageError(fmt::format("--clip: {} is not above {}, the deficit that '{}' allows", claim.clip_of(target),
                                   target.allowed_deficit(), target.text));
  }
}

Evidence judge(const PromptNumbers& numbers, std::span<const Target> targets, const Claim& claim) {
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
  evidence.share = clopper_pearson(evidence.violations, evidence.prompts, claim.confidence);
  const bool by_share = claim.kind != ClaimKind::mean;
  evidence.p_value = by_share ? binomial_cdf(evidence.violations, evidence.prompts, claim.max_violating) : 0;
  bool all_within = within(evidence.violations, evidence.prompts, claim.max_violating), all_seen = true;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const TargetEvidence& target = evidence.targets.emplace_back(evidence_of(numbers, t, targets[t], claim));
    evidence.p_value = std::max(evidence.p_value, target.p_value);
    all_within = all_within && within(target.violations, target.prompts, claim.max_violating);
    all_seen = all_seen && target.prompts > 0;
  }
  if (claim.kind == ClaimKind::observed)
    evidence.certainty = !all_within ? Certainty::refuted : all_seen ? Certainty::certified : Certainty::undecided;
  else if (evidence.p_value <= claim.alpha())
    evidence.certainty = Certainty::certified;
  else if (is_refuted(numbers, evidence, targets, claim))
    evidence.certainty = Certainty::refuted;
  return evidence;
}

SequenceEnd end_of_sequence(std::span<const Certainty> safest_first) {
  const auto end = static_cast<std::size_t>(
      std::ranges::find_if(safest_first, [](Certainty one) { return one != Certainty::certified; }) -
      safest_first.begin());
  SequenceEnd sequence;
  if (end > 0) sequence.certified = end - 1;
  if (end < safest_first.size()) sequence.stopped = end;
  return sequence;
}

void find_passing_values(const PromptNumbers& numbers, std::span<const Target> targets, const Claim& claim,
                         Evidence& evidence) {
  for (std::size_t t = 0; t < targets.size(); ++t) {
    std::vector<double> values = counted(numbers, t);
    evidence.targets[t].passes_at = claim.kind == ClaimKind::mean ? passing_mean(values, targets[t], claim)
                                                                  : passing_share(std::move(values), targets[t], claim);
  }
}

std::optional<std::int64_t> prompts_to_decide(const PromptNumbers& numbers, const Evidence& evidence,
                                              std::span<const Target> targets, const Claim& claim) {
  if (evidence.certainty != Certainty::undecided) return evidence.prompts;
  const double refuting = refuting_level(evidence, claim);
  // All tests must certify, and one suffices to refute.
  std::optional<std::int64_t> certified = evidence.prompts, refuted;
  const auto need = [&](bool certifies, std::optional<std::int64_t> prompts) {
    if (certifies || !prompts)
      certified = certified && prompts && certifies ? std::optional(std::max(*certified, *prompts)) : std::nullopt;
    else
      refuted = std::min(refuted.value_or(*prompts), *prompts);
  };
  const auto need_share = [&](std::int64_t k, std::int64_t n) {
    const std::optional<std::int64_t> counting = prompts_for_share(k, n, claim, refuting);
    // Of all prompts, the same part would count.
    need(static_cast<double>(k) < claim.max_violating * static_cast<double>(n),
         counting ? std::optional((*counting * evidence.prompts + n - 1) / n) : std::nullopt);
  };
  if (claim.kind != ClaimKind::mean) need_share(evidence.violations, evidence.prompts);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const TargetEvidence& own = evidence.targets[t];
    if (own.p_value <= claim.alpha()) continue;
    if (claim.kind == ClaimKind::mean) {
      const std::vector<double> losses = losses_of(counted(numbers, t), targets[t], claim.clip_of(targets[t]));
      const double allowed = targets[t].allowed_deficit() / claim.clip_of(targets[t]);
      need(mean_of(losses) <= allowed, prompts_for_mean(losses, allowed, claim, refuting));
    } else if (own.prompts < evidence.prompts) {
      need_share(own.violations, own.prompts);
    }
  }
  return refuted ? refuted : certified;
}

std::int64_t fewest_prompts(const Claim& claim, std::span<const Target> targets) {
  if (claim.kind == ClaimKind::observed) return 1;
  if (claim.kind == ClaimKind::prompts) return fewest_zeros(claim.max_violating, claim);
  std::int64_t fewest = 1;
  if (claim.bound == MeanBound::bootstrap) return fewest;
  // Losses of 0 certify with as few as any test can (mean_bound.h).
  for (const Target& target : targets)
    fewest = std::max(fewest, fewest_zeros(target.allowed_deficit() / claim.clip_of(target), claim));
  return fewest;
}

}  // namespace attest
