// What a claim takes: how many prompts, which value of a target.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "analysis/validation/claim.h"
#include "analysis/validation/claim_tests.h"

namespace attest {
namespace {

constexpr std::int64_t kMostPrompts = 1'000'000;

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
