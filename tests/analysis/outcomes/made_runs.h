// Made-up runs for tests of what is learnt from outcomes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "analysis/outcomes/outcome_runs.h"

namespace attest::test {

/// Each prompt under every label; a selector has two labels. One predictor, `name`, of which low values speak for a
/// failure: uniform, and a run fails if it is below `limit` (but for a share `noise` of coins).
inline OutcomeRuns made_runs(std::uint64_t seed, std::size_t prompts, std::size_t selectors, double limit, double noise,
                             const std::string& name = "span_recall.min", std::size_t models = 1) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  OutcomeRuns all;
  for (std::size_t m = 0; m < models; ++m) all.models.push_back("m" + std::to_string(m));
  for (std::size_t p = 0; p < prompts; ++p) all.prompts.push_back("p" + std::to_string(p));
  for (std::size_t s = 0; s < selectors; ++s) {
    all.selectors.push_back("s" + std::to_string(s));
    all.labels.push_back("a" + std::to_string(s));
    all.labels.push_back("b" + std::to_string(s));
  }
  all.predictors.push_back({.name = name, .high_fails = false, .needs_spans = name.starts_with("span")});
  for (std::size_t m = 0; m < models; ++m)
    for (std::size_t p = 0; p < prompts; ++p)
      for (std::size_t label = 0; label < all.labels.size(); ++label) {
        const double value = uniform(random);
        const bool coin = uniform(random) < noise;
        all.runs.push_back({.model = m,
                            .prompt = p,
                            .label = label,
                            .selector = label / 2,
                            .failed = coin ? random() % 2 == 0 : value < limit,
                            .values = {value}});
      }
  return all;
}

}  // namespace attest::test
