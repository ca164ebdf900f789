// Margins of the rules.
#include "analysis/decode_bench/block_margins.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace attest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The least over the heads of a pair. `of_row(row, out)` fills a head's margins from its values.
template <class OfRow>
std::vector<double> min_of_group(const HeadMaxima& heads, OfRow&& of_row) {
  const auto subs = static_cast<std::size_t>(heads.sub_blocks);
  std::vector<double> minimum(static_cast<std::size_t>(heads.pairs) * subs, kInfinity), own(subs);
  if (subs == 0) return minimum;
  for (std::size_t row = 0; row < static_cast<std::size_t>(heads.pairs * heads.group); ++row) {
    of_row(heads.maxima.subspan(row * subs, subs), std::span(own));
    const std::size_t first = row / static_cast<std::size_t>(heads.group) * subs;
    for (std::size_t sub = 0; sub < subs; ++sub) minimum[first + sub] = std::min(minimum[first + sub], own[sub]);
  }
  return minimum;
}

}  // namespace

std::vector<double> topdelta_margins(const HeadMaxima& heads) {
  return min_of_group(heads, [&](std::span<const double> maxima, std::span<double> out) {
    const auto block = static_cast<std::size_t>(heads.per_block);
    const double reference = std::max(std::ranges::max(maxima.first(block)), std::ranges::max(maxima.last(block)));
    std::ranges::transform(maxima, out.begin(), [&](double own) { return reference - own; });
  });
}

std::vector<double> topk_margins(const HeadMaxima& heads) {
  return min_of_group(heads, [](std::span<const double> maxima, std::span<double> out) {
    std::ranges::transform(maxima, out.begin(), [](double own) { return -own; });
  });
}

std::vector<double> skip_margins(const HeadMaxima& heads, int splits) {
  return min_of_group(heads, [&](std::span<const double> maxima, std::span<double> out) {
    const std::size_t step = std::min(maxima.size(), static_cast<std::size_t>(splits));
    std::vector<double> running(step, -kInfinity);
    for (std::size_t tile = 0; tile < maxima.size(); ++tile) {
      double& earlier = running[tile % step];
      out[tile] = tile < step ? -kInfinity : earlier - maxima[tile];
      earlier = std::max(earlier, maxima[tile]);
    }
  });
}

std::vector<double> topp_margins(const HeadMaxima& masses) {
  std::vector<std::size_t> order(static_cast<std::size_t>(masses.sub_blocks));
  return min_of_group(masses, [&](std::span<const double> mass, std::span<double> out) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t sub) { return mass[sub]; });
    double before = 0;
    for (const std::size_t sub : order) {
      out[sub] = before;
      before += mass[sub];
    }
  });
}

}  // namespace attest
