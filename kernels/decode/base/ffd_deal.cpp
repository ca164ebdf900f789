// Deals thread blocks to pairs.
#include "kernels/decode/base/ffd_deal.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace attest {
namespace {

/// Of attending a kept block, in scans of one: of 0.4, 0.7, 1 and 1.4 the best on an H200
/// (experiments/bench/kernel/H200.md).
constexpr double kAttendWork = 5.6;
/// What a deal must save of the work of the CTA that has most, in scans. With less, calls took up to 0.8 us longer, and
/// short ones lose their clusters.
constexpr double kMinSaved = 14;

/// Work of the CTA that has most of a pair that has `ctas`.
double work_of(int blocks, double kept_share, int ctas) {
  const int own = (blocks + 1 + ctas - 1) / ctas;  // with the tail
  return own * (1 + kAttendWork * kept_share);
}

/// The fewest CTAs for each pair with which no CTA has more work than `limit`, and their sum. The sum is above `ctas`
/// if so many do not suffice.
std::pair<std::vector<int>, int> counts_within(double limit, std::span<const float> kept_share, int blocks, int ctas) {
  std::vector<int> counts;
  int sum = 0;
  for (const float share : kept_share) {
    int count = 1;
    while (sum + count <= ctas && work_of(blocks, share, count) > limit) ++count;
    counts.push_back(count);
    sum += count;
  }
  return {std::move(counts), sum};
}

}  // namespace

FfdDeal deal_of(std::span<const int> counts) {
  FfdDeal deal;
  for (std::size_t pair = 0; pair < counts.size(); ++pair) {
    const int first = deal.ctas, last = first + counts[pair] - 1;
    for (; deal.ctas <= last; ++deal.ctas)
      deal.of_cta[deal.ctas] = {static_cast<std::uint8_t>(pair), static_cast<std::uint8_t>(first),
                                static_cast<std::uint8_t>(last)};
  }
  deal.min_per_pair = *std::ranges::min_element(counts);
  return deal;
}

FfdDeal deal_by_shares(std::span<const float> kept_share, int blocks, int ctas) {
  const int pairs = static_cast<int>(kept_share.size());
  if (pairs == 0 || pairs > ctas) return {};
  double even = 0;
  for (const float share : kept_share) even = std::max(even, work_of(blocks, share, ctas / pairs));
  double low = 0, high = even;
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (counts_within(middle, kept_share, blocks, ctas).second <= ctas ? high : low) = middle;
  }
  if (even - high < kMinSaved) return {};
  return deal_of(counts_within(high, kept_share, blocks, ctas).first);
}

}  // namespace attest
