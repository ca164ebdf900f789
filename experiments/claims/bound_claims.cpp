// The paper's theorem on the scanning error, and its false-negative bound.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/claims/claim.h"
#include "experiments/claims/measured.h"
#include "experiments/paper/selector_choice.h"

namespace attest {
namespace {

/// The bounds of the first ffd at delta 5; ScanBoundStudy::problem says why there are none.
ScanBoundStudy bounds_of(const ModelStudy& study, ScanBounds& scan_bounds) {
  const PooledSelector* ffd = ffd_at(study, 5);
  if (!ffd || ffd->option("scan") == "exact" || ffd->option("rule") != "topdelta")
    return {.problem = "there is no ffd with scan=thumbnail and rule=topdelta at delta 5"};
  ScanBoundStudy bounds = scan_bounds.of(study, *ffd, *index_of(ffd->group, 5));
  if (bounds.problem.empty() && bounds.pooled.rows == 0) bounds.problem = "no context has a full block";
  return bounds;
}

ClaimResult tail_below_bound(const ScanBoundStudy& bounds) {
  const auto rows = static_cast<double>(bounds.pooled.rows);
  double above = 0;
  for (const BoundSums& sums : bounds.pooled.at) above = std::max(above, sums.above_paper);
  const auto one = std::ranges::find(bounds.lambdas, 1.0);
  const std::size_t shown = one == bounds.lambdas.end() ? 0 : static_cast<std::size_t>(one - bounds.lambdas.begin());
  const BoundSums& at = bounds.pooled.at[shown];
  return {.verdict = above == 0 ? Verdict::holds : Verdict::does_not_hold,
          .evidence = fmt::format(
              "the measured tail exceeds the bound in at most {:g} of {} rows at any lambda; at lambda "
              "{:g} {} of the tokens against a bound of {}, with the steps of each block {}",
              above, bounds.pooled.rows, bounds.lambdas[shown], percent(at.tail / rows),
              percent(std::min(1.0, at.bound_paper / rows)), percent(std::min(1.0, at.bound_block / rows)))};
}

ClaimResult misses_below_bound(const ScanBoundStudy& bounds) {
  bool holds = true;
  std::string evidence;
  for (std::size_t i = 0; i < bounds.lambdas.size(); ++i) {
    const BoundSums& sums = bounds.pooled.at[i];
    if (sums.salient == 0) continue;
    holds &= sums.missed <= sums.missed_bound_paper;
    if (bounds.lambdas[i] == 1 || bounds.lambdas[i] == 2)
      evidence += fmt::format(
          "{}margin {:g}: {} of {:.0f} tokens are estimated too low, the bound allows {}, {} are dropped",
          evidence.empty() ? "" : "; ", bounds.lambdas[i], percent(sums.missed / sums.salient), sums.salient,
          percent(sums.missed_bound_paper / sums.salient), percent(sums.dropped / sums.salient));
  }
  if (evidence.empty())
    return {.evidence = "no token lies above a margin of 1 or 2 nats", .run_options = "--lambdas 1,2"};
  return {.verdict = holds ? Verdict::holds : Verdict::does_not_hold, .evidence = evidence};
}

}  // namespace

std::vector<CheckedClaim> checked_bound_claims(const ModelStudy& study, ScanBounds& scan_bounds) {
  const ScanBoundStudy bounds = bounds_of(study, scan_bounds);
  const auto result = [&](ClaimResult (*check)(const ScanBoundStudy&)) {
    if (bounds.problem.empty()) return check(bounds);
    return ClaimResult{.evidence = "needs the dump and its thumbnails: " + bounds.problem,
                       .run_options = "--selector ffd --delta 5"};
  };
  return {{{"The scanning error is concentrated: at most 2 exp(-lambda^2 / (2 sigma_eff^2)) of it lies beyond lambda",
            "Theorem (scanning error)", "error_bound"},
           result(tail_below_bound)},
          {{"Of the tokens above the threshold by a margin lambda at most exp(-lambda^2 / (2 sigma_eff^2)) are missed",
            "App. false-negative bound", "error_bound"},
           result(misses_below_bound)}};
}

}  // namespace attest
