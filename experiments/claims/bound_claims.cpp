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
  return {.verdict = judged_universal(above > 0, bounds.samples.size()),
          .evidence = fmt::format(
              "the measured tail exceeds the bound in at most {:g} of {} rows at any lambda; {}{}{}", above,
              bounds.pooled.rows,
              *first == 0 ? "" : fmt::format("to lambda {:g} the bound is 100 %; ", bounds.lambdas[*first - 1]),
              at_lambda(*first), *first == last ? "" : "; " + at_lambda(last))};
}

/// For each sample, of the tokens above the threshold, the share that the bound allows to be missed minus the share
/// that is missed.
SampleNumbers allowed_minus_missed(const ScanBoundStudy& bounds, std::size_t margin) {
  SampleNumbers found;
  for (const LayerBounds& sample : bounds.samples)
    if (const BoundSums& sums = sample.at[margin]; sums.salient > 0)
      found[{static_cast<int>(found.size()), {}}] = (sums.missed_bound_paper - sums.missed) / sums.salient;
  return found;
}

ClaimResult misses_below_bound(const ScanBoundStudy& bounds) {
  std::vector<std::size_t> margins;  // at which the bound is below 100 %
  bool seen = false;
  for (std::size_t i = 0; i < bounds.lambdas.size(); ++i) {
    const BoundSums& sums = bounds.pooled.at[i];
    seen |= sums.salient > 0;
    if (sums.missed_bound_paper < sums.salient) margins.push_back(i);
  }
  if (!seen)
    return {.evidence = "no token lies above the threshold by a margin that was studied",
            .run_options = "--lambdas 1,2"};
  if (margins.empty())
    return {.evidence = fmt::format("vacuous: up to a margin of {:g} the bound is 100 %", bounds.lambdas.back()),
            .run_options = "--lambdas 4,6,8,12"};
  std::vector<SampleNumbers> parts;
  for (const std::size_t margin : margins) parts.push_back(allowed_minus_missed(bounds, margin));
  const auto at_margin = [&](std::size_t margin) {
    const BoundSums& sums = bounds.pooled.at[margin];
    return fmt::format("at margin {:g} {} of {:.0f} tokens are estimated too low, the bound allows {}, {} are dropped",
                       bounds.lambdas[margin], percent(sums.missed / sums.salient), sums.salient,
                       percent(sums.missed_bound_paper / sums.salient), percent(sums.dropped / sums.salient));
  };
  const auto distance = [&](std::size_t margin) {
    const BoundSums& sums = bounds.pooled.at[margin];
    return (sums.missed_bound_paper - sums.missed) / sums.salient;
  };
  const std::size_t nearest = *std::ranges::min_element(margins, {}, distance);
  const JudgedParts judged = judged_parts(parts);
  return {.verdict = judged.verdict,
          .evidence = fmt::format("of {} at which the bound is below 100 %, {}; {}{}",
                                  counted(std::ssize(margins), "margin"), judged.text(), at_margin(margins.front()),
                                  nearest == margins.front() ? "" : "; nearest to the bound, " + at_margin(nearest))};
}

}  // namespace

std::vector<CheckedClaim> checked_bound_claims(const ModelStudy& study, ScanBounds& scan_bounds) {
  const ScanBoundStudy bounds = bounds_of(study, scan_bounds);
  const auto result = [&](ClaimResult (*check)(const ScanBoundStudy&)) {
    if (!bounds.problem.empty())
      return ClaimResult{.evidence = "needs the dump and its thumbnails: " + bounds.problem,
                         .run_options = "--selector ffd --delta 5"};
    ClaimResult checked = check(bounds);
    checked.subject =
        fmt::format("ffd at delta 5, {} rows (query, head) of {}, {}", bounds.pooled.rows,
                    counted(std::ssize(bounds.layers), "layer"), counted(std::ssize(bounds.samples), "sample"));
    return checked;
  };
  return {
      {{"The scanning error is concentrated: at most 2 exp(-lambda^2 / (2 sigma_eff^2)) of it lies beyond lambda",
        "Theorem (scanning error)", "error_bound",
        "in no row a tail above the bound, at lambdas where the mean bound is below 100 %"},
       result(tail_below_bound)},
      {{"Of the tokens above the threshold by a margin lambda at most exp(-lambda^2 / (2 sigma_eff^2)) are missed",
        "App. false-negative bound", "error_bound",
        "at every margin where the bound is below 100 % the interval of the samples' share that it allows minus the "
        "missed one is above 0; clearly below at one refutes"},
       result(misses_below_bound)}};
}

}  // namespace attest
