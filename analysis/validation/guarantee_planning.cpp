// What a guarantee takes: how many prompts, which value of a target.
#include <algorithm>
#include <cmath>

#include "analysis/statistics/mean_bound.h"
#include "analysis/validation/guarantee.h"
#include "analysis/validation/guarantee_tests.h"

namespace attest {
namespace {

constexpr std::int64_t kMaxPrompts = 1'000'000;

/// The smallest n in [from, kMaxPrompts] that passes: found by doubling and halving, as nearly all larger ones pass.
template <class Passes>
std::optional<std::int64_t> smallest(std::int64_t from, Passes passes) {
  std::int64_t low = from - 1, high = std::max<std::int64_t>(from, 1);
  while (!passes(high)) {
    if (high >= kMaxPrompts) return std::nullopt;
    low = high;
    high = std::min(2 * high, kMaxPrompts);
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (passes(middle) ? high : low) = middle;
  }
  return high;
}

/// Prompts that decide a binomial test if the share k / n goes on. `refuting`: the level of a refutation.
std::optional<std::int64_t> prompts_for_share(std::int64_t k, std::int64_t n, const Guarantee& guarantee,
                                              double refuting) {
  if (n == 0) return std::nullopt;
  const double share = static_cast<double>(k) / static_cast<double>(n);
  const auto violations = [&](std::int64_t prompts) { return share * static_cast<double>(prompts); };
  if (share < guarantee.max_violating)
    return smallest(n, [&](std::int64_t m) {
      const auto more = static_cast<std::int64_t>(std::ceil(violations(m) - 1e-9));
      return binomial_cdf(more, m, guarantee.max_violating) <= guarantee.alpha();
    });
  return smallest(n, [&](std::int64_t m) {
    const auto fewer = static_cast<std::int64_t>(std::floor(violations(m) + 1e-9));
    return fewer > 0 && binomial_upper_tail(fewer, m, guarantee.max_violating) <= refuting;
  });
}

/// The same for a mean: the observed losses over and over.
std::optional<std::int64_t> prompts_for_mean(const std::vector<double>& losses, double allowed,
                                             const Guarantee& guarantee, double refuting) {
  constexpr std::int64_t kMax = 100'000;  // each trial takes time that grows with it
  if (losses.empty()) return std::nullopt;
  const bool certifies = mean_loss(losses) <= allowed;
  const auto found = smallest(static_cast<std::int64_t>(losses.size()), [&](std::int64_t m) {
    if (m > kMax) return true;  // ends the search
    std::vector<double> repeated;
    for (std::int64_t i = 0; i < m; ++i) repeated.push_back(losses[static_cast<std::size_t>(i) % losses.size()]);
    return certifies ? mean_p(std::move(repeated), allowed, guarantee) <= guarantee.alpha()
                     : mirrored_p(std::move(repeated), allowed, guarantee) <= refuting;
  });
  return found && *found <= kMax ? found : std::nullopt;
}

/// The fewest prompts that show a share or a mean to be at most `allowed`: none of them with any loss.
std::int64_t fewest_zeros(double allowed, const Guarantee& guarantee) {
  return static_cast<std::int64_t>(std::ceil(std::log(guarantee.alpha()) / std::log1p(-allowed) - 1e-9));
}

/// The value of the target's number at which its deficit is `deficit`.
double value_at(const Target& target, double deficit) { return target.at_least ? 1 - deficit : deficit; }

/// The largest number of violations among n prompts that passes; -1 if none does.
std::int64_t max_violations(std::int64_t n, const Guarantee& guarantee) {
  std::int64_t maximum = -1;
  while (maximum + 1 < n && (guarantee.kind == GuaranteeKind::observed
                                 ? within(maximum + 1, n, guarantee.max_violating)
                                 : binomial_cdf(maximum + 1, n, guarantee.max_violating) <= guarantee.alpha()))
    ++maximum;
  return maximum;
}

/// The prompts that count, the one that is farthest from its targets first.
std::vector<std::size_t> worst_first(const PromptNumbers& numbers, std::span<const Target> targets) {
  std::vector<double> badness(numbers.size(), -1);
  std::vector<std::size_t> order;
  for (std::size_t p = 0; p < numbers.size(); ++p) {
    for (std::size_t t = 0; t < targets.size(); ++t)
      if (!std::isnan(numbers[p][t])) badness[p] = std::max(badness[p], targets[t].relative_deficit(numbers[p][t]));
    if (badness[p] >= 0) order.push_back(p);
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return badness[a] > badness[b]; });
  return order;
}

/// The targets with the worst numbers of `prompts` as their values: what all of these prompts meet.
std::vector<Target> met_by_all(const PromptNumbers& numbers, std::span<const std::size_t> prompts,
                               std::span<const Target> targets) {
  std::vector<Target> met(targets.begin(), targets.end());
  for (std::size_t t = 0; t < targets.size(); ++t) {
    std::optional<double> worst;
    for (const std::size_t p : prompts) {
      const double x = numbers[p][t];
      if (!std::isnan(x) && (!worst || (targets[t].at_least ? x < *worst : x > *worst))) worst = x;
    }
    met[t].value = worst.value_or(targets[t].value);
  }
  return met;
}

void find_passing_shares(const PromptNumbers& numbers, std::span<const Target> targets, const Guarantee& guarantee,
                         Evidence& evidence) {
  const std::vector<std::size_t> order = worst_first(numbers, targets);
  // A target for which few prompts count may allow fewer violations than all targets together.
  for (std::int64_t k = max_violations(evidence.prompts, guarantee); k >= 0; --k) {
    const std::vector<Target> met = met_by_all(numbers, std::span(order).subspan(static_cast<std::size_t>(k)), targets);
    if (!passes(judge(numbers, met, guarantee).certainty)) continue;
    for (std::size_t t = 0; t < targets.size(); ++t) evidence.targets[t].passes_at = met[t].value;
    return;
  }
}

std::optional<double> passing_mean(const std::vector<double>& values, const Target& target,
                                   const Guarantee& guarantee) {
  if (values.empty()) return std::nullopt;
  // A target of another value has another clip, unless --clip gives one.
  const auto certifies = [&](double allowed) {
    const double clip = guarantee.clip.value_or(10 * allowed);
    return mean_p(losses_of(values, target, clip), allowed / clip, guarantee) <= guarantee.alpha();
  };
  double low = 0, high = target.allowed_deficit();
  for (const double x : values)
    if (std::isfinite(x)) high = std::max(high, 20 * target.deficit(x));
  if (guarantee.clip) high = *guarantee.clip * (1 - 1e-9);
  if (!certifies(high)) return std::nullopt;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    (certifies(middle) ? high : low) = middle;
  }
  // A value is 1 - the deficit, or the other way round, but for rounding.
  const double value = value_at(target, high * (1 + 1e-9)), minimum = target.quantity.info.range.min;
  // What the metric cannot fall below asks for nothing.
  return target.at_least && !target.quantity.deficit && value < minimum ? std::nullopt : std::optional(value);
}

}  // namespace

void find_passing_values(const PromptNumbers& numbers, std::span<const Target> targets, const Guarantee& guarantee,
                         Evidence& evidence) {
  if (guarantee.kind != GuaranteeKind::mean) return find_passing_shares(numbers, targets, guarantee, evidence);
  // Every target is tested at the full level and all must pass, so that what each passes alone they pass together.
  for (std::size_t t = 0; t < targets.size(); ++t)
    evidence.targets[t].passes_at = passing_mean(counted(numbers, t), targets[t], guarantee);
}

std::optional<std::int64_t> prompts_to_decide(const PromptNumbers& numbers, const Evidence& evidence,
                                              std::span<const Target> targets, const Guarantee& guarantee) {
  const auto all = static_cast<std::int64_t>(numbers.size());
  if (!guarantee.certifies()) return std::nullopt;
  if (evidence.certainty != Certainty::undecided) return all;
  const double refuting = refuting_level(evidence, guarantee);
  // All tests must certify, and one suffices to refute.
  std::optional<std::int64_t> certified = all, refuted;
  const auto need = [&](bool certifies, std::optional<std::int64_t> prompts) {
    if (certifies || !prompts)
      certified = certified && prompts && certifies ? std::optional(std::max(*certified, *prompts)) : std::nullopt;
    else
      refuted = std::min(refuted.value_or(*prompts), *prompts);
  };
  // Of all prompts the same part would count.
  const auto of_all = [&](std::optional<std::int64_t> counting, std::int64_t n) {
    return counting ? std::optional((*counting * all + n - 1) / n) : std::nullopt;
  };
  const auto need_share = [&](std::int64_t k, std::int64_t n) {
    need(static_cast<double>(k) < guarantee.max_violating * static_cast<double>(n),
         of_all(prompts_for_share(k, n, guarantee, refuting), n));
  };
  if (guarantee.kind != GuaranteeKind::mean) need_share(evidence.violations, evidence.prompts);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const TargetEvidence& own = evidence.targets[t];
    if (own.p_value <= guarantee.alpha()) continue;
    if (guarantee.kind == GuaranteeKind::mean) {
      const std::vector<double> losses = losses_of(counted(numbers, t), targets[t], guarantee.clip_of(targets[t]));
      const double allowed = targets[t].allowed_deficit() / guarantee.clip_of(targets[t]);
      need(mean_loss(losses) <= allowed, of_all(prompts_for_mean(losses, allowed, guarantee, refuting), own.prompts));
    } else if (own.prompts < evidence.prompts) {
      need_share(own.violations, own.prompts);
    }
  }
  return refuted ? refuted : certified;
}

std::int64_t fewest_prompts(const Guarantee& guarantee, std::span<const Target> targets) {
  if (!guarantee.certifies()) return 1;
  if (guarantee.kind == GuaranteeKind::prompts) return fewest_zeros(guarantee.max_violating, guarantee);
  std::int64_t fewest = 1;
  // Losses of 0 certify with as few as any test can (mean_bound.h).
  for (const Target& target : targets)
    fewest = std::max(fewest, fewest_zeros(target.allowed_deficit() / guarantee.clip_of(target), guarantee));
  return fewest;
}

}  // namespace attest
