// Numbers that arise in a study and are too large to be studied, although the dump's values are finite.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "analysis/study/study.h"
#include "dumps/attention_layer.h"

namespace attest {

/// Largest magnitude of a score or an estimate that is studied. The squares of their differences, of which the GPU adds
/// eight in float32, stay finite. Scores of models are many orders of magnitude smaller.
inline constexpr float kLargestScore = 0x1p60f;
inline constexpr float kNoLowest = -std::numeric_limits<float>::infinity();

/// The steps of a study that are checked, in the order in which they are computed.
enum class OverflowStep : std::uint8_t { score, exact_output, estimate, read_score, output };

/// Such a number. A NaN counts as one: it comes of infinite numbers.
struct Overflow {
  OverflowStep step = OverflowStep::score;
  std::size_t selector = 0;  ///< index in Study::selectors; of the last three steps
  std::int64_t query = 0;    ///< index in the layer
  int query_head = 0;        ///< within the layer
  std::int64_t token = 0;    ///< counted from the first key that the query sees; not of outputs
};

/// The smallest estimate of a selector that can be studied. In estimates from a file, -inf is the lowest.
inline float lowest_estimate(const Selector& selector) {
  const std::vector<EstimateSource> sources = selector.estimate_sources();
  return std::ranges::count(sources, EstimateKind::scores, &EstimateSource::kind) > 0 ? kNoLowest : -kLargestScore;
}

/// "layer 3, query head 5, query at 900: the score of token 17 is NaN or beyond 1.15e+18, the largest that is studied".
std::string describe(const Overflow& overflow, const Study& study, const AttentionLayer& layer);

}  // namespace attest
