// Walks a grid of targets.
#include "analysis/outcomes/pass_target.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "analysis/statistics/binomial.h"

namespace attest {
namespace {

constexpr std::array kQualities = {0.9999, 0.9995, 0.999, 0.998, 0.995, 0.99, 0.985, 0.98, 0.97, 0.96, 0.95,
                                   0.94,   0.93,   0.92,  0.91,  0.9,   0.88, 0.86,  0.84, 0.82, 0.8,  0.75,
                                   0.7,    0.65,   0.6,   0.55,  0.5,   0.4,  0.3,   0.2,  0.1,  0.0};
constexpr std::array kErrors = {0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3,
                                0.4,   0.5,   0.6,   0.7,  0.8,  0.9,  1.0,  1.25, 1.5, 2.0,  3.0, 5.0,  10.0};

Certainty certainty(const PassCounts& counts, const Guarantee& guarantee) {
  const bool certified =
      binomial_cdf(counts.failed_prompts, counts.prompts, guarantee.max_violating) <= guarantee.alpha();
  return certified ? Certainty::certified : Certainty::undecided;
}

}  // namespace

const std::vector<std::string>& target_predictors() {
  static const std::vector<std::string> list = {"span_recall.min", "lse_error.max", "mass_recall.min", "recall.min"};
  return list;
}

std::vector<Target> target_grid(const std::string& predictor) {
  std::vector<Target> grid;
  if (predictor == "lse_error.max")
    for (const double value : kErrors) grid.push_back(parse_target(fmt::format("{}<={}", predictor, value)));
  else if (std::ranges::count(target_predictors(), predictor) > 0)
    for (const double value : kQualities) grid.push_back(parse_target(fmt::format("{}>={}", predictor, value)));
  return grid;
}

std::vector<PassCounts> pass_counts(const OutcomeRuns& all, std::size_t predictor,
                                    std::span<const Target> strictest_first) {
  std::vector<PassCounts> counts;
  for (const Target& target : strictest_first) {
    PassCounts one{.target = target};
    enum : std::uint8_t { none, right, failed };
    std::vector<std::uint8_t> prompts(all.prompts.size(), none);
    for (const OutcomeRun& run : all.runs) {
      if (!target.is_met_by(run.values[predictor])) continue;
      ++one.runs;
      one.failed_runs += run.failed ? 1 : 0;
      prompts[run.prompt] = run.failed || prompts[run.prompt] == failed ? failed : right;
    }
    one.failed_prompts = std::ranges::count(prompts, failed);
    one.prompts = one.failed_prompts + std::ranges::count(prompts, right);
    counts.push_back(std::move(one));
  }
  return counts;
}

std::optional<std::size_t> laxest_certified(std::span<const PassCounts> strictest_first, const Guarantee& guarantee) {
  std::size_t first = 0;
  const auto can_certify = [&](const PassCounts& counts) {
    return binomial_cdf(0, counts.prompts, guarantee.max_violating) <= guarantee.alpha();
  };
  while (first < strictest_first.size() && !can_certify(strictest_first[first])) ++first;
  std::vector<Certainty> sequence;
  for (const PassCounts& counts : strictest_first.subspan(first)) sequence.push_back(certainty(counts, guarantee));
  const std::optional<std::size_t> certified = end_of_sequence(sequence).passed;
  return certified ? std::optional(first + *certified) : std::nullopt;
}

}  // namespace attest
