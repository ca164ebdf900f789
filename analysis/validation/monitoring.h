// Whether a guarantee still fits the prompts that come later: tests that may be looked at after every prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/validation/guarantee.h"

namespace attest {

/// What evidence is given as that is larger: it grows without bound, and JSON has no infinity.
inline constexpr double kMaxEvidence = 1e300;

/// One test. Its evidence is the factor by which a fair game's capital has grown at most so far: it reaches
/// 1 / (1 - confidence) with probability 1 - confidence at most, however long the test goes on.
struct SequentialTest {
  double evidence = 1;
  std::optional<std::size_t> alarm = {};  ///< the prompt, from 0, with which it reached that
};

struct Monitoring {
  std::int64_t prompts = 0, violations = 0;  ///< of those that count for a target
  /// Against what was guaranteed: the share of violating prompts, or for `mean` the mean losses.
  SequentialTest guarantee;
  /// Against that the prompts are exchangeable with those that certified, by how far each is from its targets.
  SequentialTest drift;
  bool worse = true;  ///< the drift is to numbers that are farther from the targets
};

/// `certified`: the numbers that certified; `later`: those of new prompts, in the order in which they came.
Monitoring monitor(const PromptNumbers& certified, const PromptNumbers& later, std::span<const Target> targets,
                   const Guarantee& guarantee);

}  // namespace attest
