// The structure that each query head of a synthetic dump shows, and how strongly its queries select it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

enum class HeadKind : std::uint8_t {
  sink,        ///< most attention on the first token(s)
  local,       ///< most on the last tokens before the query
  retrieval,   ///< most on the sample's spans
  multi_peak,  ///< most on a few single tokens, scattered
  flat,        ///< nearly even over all tokens
  /// most on a few single tokens; half of them share one key, the others differ from it by one unit in the last place
  ties,
};

std::string_view name_of(HeadKind kind);

/// The kinds that a profile assigns in turn, for example {sink, local}. Throws UsageError for an unknown name.
std::span<const HeadKind> profile_kinds(std::string_view profile);

/// All names that profile_kinds knows.
std::vector<std::string> profile_names();

/// Query head `head` of layer `layer` has the kind kinds[(layer + head) % n].
HeadKind head_kind(std::span<const HeadKind> kinds, int layer, int head);

/// Features of keys that queries can select, each along its own channels.
enum class PlantedFeature : std::uint8_t { sink, span, peak, tie };
inline constexpr int kPlantedFeatures = 4;

/// Norm of a planted feature in a key. A key's noise has a standard deviation of 1 per channel, so a feature that
/// raises a score by h also adds noise of h / kPlantedNorm: 1.2 nats for the 14 nats that a peak needs among 32K
/// tokens.
inline constexpr double kPlantedNorm = 12;

/// Noise of a planted token relative to an ordinary token's. Sinks and ties have little, so that their shares are
/// accurate.
inline constexpr std::array<double, kPlantedFeatures> kPlantedNoise{0.2, 0.5, 0.3, 0.2};

/// What a query head sees of each structure: the input for converting shares to scores.
struct VisibleStructure {
  std::array<std::int64_t, kPlantedFeatures> planted{};  ///< tokens that carry each feature
  std::int64_t others = 0;                               ///< tokens that carry none
  double local_log_sum = 0;                              ///< log sum exp of the position scores
  double position_variance = 0;                          ///< of a score, caused by the noise of the position channels
  bool has_positions = false;                            ///< head_dim has room for position channels
};

/// Components of a query. Scores are in nats, after the softmax scale, before a soft-cap.
struct QueryRecipe {
  std::array<double, kPlantedFeatures> height{};  ///< score that a feature adds to the tokens that carry it
  bool positions = false;                         ///< the query selects its own position
  double spread = 0;                              ///< standard deviation of all other scores
  double peak = 0;                                ///< largest expected score
};

/// `variation` in [0, 1) gives heads of one kind different strengths.
QueryRecipe query_recipe(HeadKind kind, const VisibleStructure& visible, double variation);

}  // namespace attest
