// Which structure each query head of a synthetic dump shows, and how strongly its query must ask for it.
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
  ties,  ///< most on a few single tokens, half of them with one and the same key, the others one unit in the last place
         ///< off
};

std::string_view name_of(HeadKind kind);

/// The kinds that a profile hands out in turn, for example {sink, local}; throws UsageError for an unknown name.
std::span<const HeadKind> profile_kinds(std::string_view profile);

/// All names that profile_kinds knows.
std::vector<std::string> profile_names();

/// Query head `head` of layer `layer` has the kind kinds[(layer + head) % n].
HeadKind head_kind(std::span<const HeadKind> kinds, int layer, int head);

/// What keys carry for queries to ask for, each along channels of its own.
enum class PlantedFeature : std::uint8_t { sink, span, peak, tie };
inline constexpr int kPlantedFeatures = 4;

/// Norm of a planted feature in a key. A key's noise has a deviation of 1 per channel, so a score that a feature lifts
/// by h carries a noise of h / kPlantedNorm: 1.2 natural units for the 14 that a peak needs among 32K tokens.
inline constexpr double kPlantedNorm = 12;

/// A planted token's noise, as a part of an ordinary token's. Sinks and ties have little, so that shares come out as
/// asked.
inline constexpr std::array<double, kPlantedFeatures> kPlantedNoise{0.2, 0.5, 0.3, 0.2};

/// What a query head sees of each structure, for turning shares into scores.
struct VisibleStructure {
  std::array<std::int64_t, kPlantedFeatures> planted{};  ///< tokens that carry each feature
  std::int64_t others = 0;                               ///< tokens that carry none
  double local_log_sum = 0;                              ///< log sum exp of the position scores
  double position_variance = 0;                          ///< of a score, from the noise of the position channels
  bool has_positions = false;                            ///< head_dim has room for position channels
};

/// What a query is made of. Scores are in natural-log units, after the softmax scale, before a soft-cap.
struct QueryRecipe {
  std::array<double, kPlantedFeatures> height{};  ///< score that a token gets for carrying a feature
  bool positions = false;                         ///< the query asks for its own position
  double spread = 0;                              ///< standard deviation of all other scores
  double peak = 0;                                ///< largest score to expect
};

/// `variation` in [0, 1) makes heads of one kind differ in strength.
QueryRecipe query_recipe(HeadKind kind, const VisibleStructure& visible, double variation);

}  // namespace attest
