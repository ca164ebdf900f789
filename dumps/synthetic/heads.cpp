// Kinds and profiles of heads, and the scores that give each structure its share of the softmax.
#include "dumps/synthetic/heads.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "dumps/base/error.h"
#include "dumps/base/join.h"

namespace attest {
namespace {

using enum HeadKind;

constexpr std::array kMixed{sink, local, retrieval, multi_peak, local, flat, ties, sink};
constexpr std::array kSinkLocal{sink, local};
constexpr std::array kRetrieval{retrieval};
constexpr std::array kPeaked{retrieval, multi_peak};
constexpr std::array kFlat{flat};
constexpr std::array kTies{ties};

struct Profile {
  std::string_view name;
  std::span<const HeadKind> kinds;
};
constexpr std::array<Profile, 6> kProfiles{{{"mixed", kMixed},
                                            {"sink_local", kSinkLocal},
                                            {"retrieval", kRetrieval},
                                            {"peaked", kPeaked},
                                            {"flat", kFlat},
                                            {"ties", kTies}}};

/// Shares of the softmax. The rest goes to the position scores (`local`) or evenly to all other tokens.
struct Shares {
  std::array<double, kPlantedFeatures> planted;  ///< sink, span, peak, tie
  bool local;
  double spread;
};

constexpr Shares shares_of(HeadKind kind) {
  switch (kind) {
    case sink:
      return {{0.80, 0, 0, 0}, false, 0.6};
    case local:
      return {{0.10, 0, 0, 0}, true, 0.6};
    case retrieval:
      return {{0.10, 0.80, 0, 0}, false, 0.6};
    case multi_peak:
      return {{0.10, 0, 0.80, 0}, false, 0.6};
    case flat:
      return {{0, 0, 0, 0}, false, 0.15};
    case ties:
      return {{0.10, 0, 0, 0.80}, false, 0.6};
  }
  return {};
}

/// The share whose odds are e^shift times those of `share`.
double shift_share(double share, double shift) {
  const double odds = share / (1 - share) * std::exp(shift);
  return odds / (1 + odds);
}

}  // namespace

std::string_view name_of(HeadKind kind) {
  constexpr std::array<std::string_view, 6> names{"sink", "local", "retrieval", "multi_peak", "flat", "ties"};
  return names[static_cast<std::size_t>(kind)];
}

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (const Profile& profile : kProfiles) names.emplace_back(profile.name);
  return names;
}

std::span<const HeadKind> profile_kinds(std::string_view profile) {
  const auto found = std::ranges::find(kProfiles, profile, &Profile::name);
  if (found == kProfiles.end())
    throw UsageError(fmt::format("unknown profile '{}'; there are {}", profile, join(profile_names(), ", ")));
  return found->kinds;
}

HeadKind head_kind(std::span<const HeadKind> kinds, int layer, int head) {
  return kinds[(static_cast<std::size_t>(layer) + static_cast<std::size_t>(head)) % kinds.size()];
}

QueryRecipe query_recipe(HeadKind kind, const VisibleStructure& visible, double variation) {
  const Shares shares = shares_of(kind);
  const bool local = shares.local && visible.has_positions;
  const double shift = variation - 0.5;

  QueryRecipe recipe;
  recipe.positions = local;
  recipe.spread = kind == flat ? shares.spread : shares.spread * (0.75 + 0.5 * variation);

  std::array<double, kPlantedFeatures> share{};
  double rest = 1;
  for (int f = 0; f < kPlantedFeatures; ++f) {
    if (shares.planted[f] > 0 && visible.planted[f] > 0) share[f] = shift_share(shares.planted[f], shift);
    rest -= share[f];
  }
  rest = std::max(rest, 0.02);

  // n ordinary tokens with noise of variance v have the weight n exp(v / 2) together, a planted one has exp(h + noise^2
  // v / 2). v grows slowly with the heights, so a few iterations find both.
  const double log_rest =
      local ? visible.local_log_sum : std::log(static_cast<double>(std::max<std::int64_t>(visible.others, 1)));
  for (int round = 0; round < 20; ++round) {
    double variance = recipe.spread * recipe.spread + (local ? visible.position_variance : 0);
    for (const double height : recipe.height) variance += std::pow(height / kPlantedNorm, 2);
    for (int f = 0; f < kPlantedFeatures; ++f)
      if (share[f] > 0)
        recipe.height[f] = std::log(share[f] / rest) + log_rest - std::log(static_cast<double>(visible.planted[f])) +
                           (1 - kPlantedNoise[f] * kPlantedNoise[f]) * variance / 2;
  }
  recipe.peak = std::max(*std::ranges::max_element(recipe.height), local ? visible.local_log_sum : 0);
  return recipe;
}

}  // namespace attest
