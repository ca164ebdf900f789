// The paper's theorem on the scanning error, and its false-negative bound.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "dumps/base/join.h"
#include "experiments/claims/claim.h"
#include "experiments/claims/measured.h"
#include "experiments/study_view/selector_choice.h"

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
  std::optional<std::size_t> first;  // lambda at which the bound is below 100 %
  for (std::size_t i = 0; i < bounds.lambdas.size(); ++i) {
    above = std::max(above, bounds.pooled.at[i].above_paper);
    if (!first && bounds.pooled.at[i].bound_paper < rows) first = i;
  }
  if (!first)
    return {.evidence = fmt::format("vacuous: up to lambda {:g} the bound is 100 %, which no tail exceeds",
                                    bounds.lambdas.back()),
            .run_options = "--lambdas 4,6,8,12"};
  const auto at_lambda = [&](std::size_t i) {
    const BoundSums& at = bounds.pooled.at[i];
    return fmt::format(
        "at lambda {:g} {} of the tokens lie in it against a bound of {}, with the steps of each block {}",
        bounds.lambdas[i], percent(at.tail / rows), percent(std::min(1.0, at.bound_paper / rows)),
        percent(std::min(1.0, at.bound_block / rows)));
  };
  const std::size_t last = bounds.lambdas.size() - 1;  // a bound just below 100 % says little: the least one, too
  return {.verdict = above == 0 ? Verdict::holds : Verdict::does_not_hold,
          .evidence = fmt::format(
              "the measured tail exceeds the bound in at most {:g} of {} rows at any lambda; {}{}{}", above,
              bounds.pooled.rows,
              *first == 0 ? "" : fmt::format("to lambda {:g} the bound is 100 %; ", bounds.lambdas[*first - 1]),
              at_lambda(*first), *first == last ? "" : "; " + at_lambda(last))};
}

ClaimResult misses_below_bound(const ScanBoundStudy& bounds) {
  bool holds = true, seen = false, vacuous = true;
  std::string evidence;
  for (std::size_t i = 0; i < bounds.lambdas.size(); ++i) {
    const BoundSums& sums = bounds.pooled.at[i];
    if (sums.salient == 0) continue;
    seen = true;
    holds &= sums.missed <= sums.missed_bound_paper;
    if (sums.missed_bound_paper >= sums.salient) continue;
    if (vacuous)
      evidence = fmt::format(
          "margin {:g}, the first at which the bound is below 100 %: {} of {:.0f} tokens are estimated too low, the "
          "bound allows {}, {} are dropped",
          bounds.lambdas[i], percent(sums.missed / sums.salient), sums.salient,
          percent(sums.missed_bound_paper / sums.salient), percent(sums.dropped / sums.salient));
    vacuous = false;
  }
  if (!seen)
    return {.evidence = "no token lies above the threshold by a margin that was studied",
            .run_options = "--lambdas 1,2"};
  if (vacuous)
    return {.evidence = fmt::format("vacuous: up to a margin of {:g} the bound is 100 %", bounds.lambdas.back()),
            .run_options = "--lambdas 4,6,8,12"};
  return {.verdict = holds ? Verdict::holds : Verdict::does_not_hold, .evidence = evidence};
}

}  // namespace

std::vector<CheckedClaim> checked_bound_claims(const ModelStudy& study, ScanBounds& scan_bounds) {
  const ScanBoundStudy bounds = bounds_of(study, scan_bounds);
  const auto result = [&](ClaimResult (*check)(const ScanBoundStudy&)) {
    if (!bounds.problem.empty())
      return ClaimResult{.evidence = "needs the dump and its thumbnails: " + bounds.problem,
                         .run_options = "--selector ffd --delta 5"};
    ClaimResult checked = check(bounds);
    checked.subject = fmt::format("ffd at delta 5, {} rows (query, head) of {}", bounds.pooled.rows,
                                  counted(std::ssize(bounds.layers), "layer"));
    return checked;
  };
  return {{{"The scanning error is concentrated: at most 2 exp(-lambda^2 / (2 sigma_eff^2)) of it lies beyond lambda",
            "Theorem (scanning error)", "error_bound",
            "in no row a tail above the bound, at lambdas where the mean bound is below 100 %; no interval"},
           result(tail_below_bound)},
          {{"Of the tokens above the threshold by a margin lambda at most exp(-lambda^2 / (2 sigma_eff^2)) are missed",
            "App. false-negative bound", "error_bound",
            "no more missed tokens than the bound allows, at margins where it is below 100 %; no interval"},
           result(misses_below_bound)}};
}

}  // namespace attest
