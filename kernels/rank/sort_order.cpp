// Least-significant-digit radix sort on the order-preserving integer image of doubles.
#include "kernels/rank/sort_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

namespace attest {
namespace {

constexpr int kDigitBits = 11;
constexpr int kPasses = 6;
constexpr std::size_t kBuckets = std::size_t{1} << kDigitBits;
constexpr std::size_t kSmall = 96;  // below this an insertion-like comparison sort is quicker than six histograms

/// Ascending in the image is descending in the value.
std::uint64_t descending_image(double value) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value + 0.0);
  return (bits >> 63) != 0 ? bits : ~bits & 0x7FFFFFFFFFFFFFFFull;
}

struct Entry {
  std::uint64_t image;
  std::uint32_t index;
};

std::size_t digit_of(std::uint64_t image, int pass) { return (image >> (pass * kDigitBits)) & (kBuckets - 1); }

}  // namespace

void sort_descending(std::span<const double> values, std::span<std::uint32_t> order) {
  const std::size_t n = values.size();
  if (n <= kSmall) {
    for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::uint32_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return values[a] > values[b]; });
    return;
  }
  static thread_local std::vector<Entry> from, to;
  static thread_local std::array<std::array<std::uint32_t, kBuckets>, kPasses> counts;
  from.resize(n);
  to.resize(n);
  for (auto& c : counts) c.fill(0);
  for (std::size_t i = 0; i < n; ++i) {
    from[i] = {descending_image(values[i]), static_cast<std::uint32_t>(i)};
    for (int p = 0; p < kPasses; ++p) ++counts[p][digit_of(from[i].image, p)];
  }
  for (int p = 0; p < kPasses; ++p) {
    auto& count = counts[p];
    if (count[digit_of(from[0].image, p)] == n) continue;  // all entries share this digit
    std::uint32_t position = 0;
    for (auto& c : count) position += std::exchange(c, position);
    for (const Entry& e : from) to[count[digit_of(e.image, p)]++] = e;
    from.swap(to);
  }
  for (std::size_t i = 0; i < n; ++i) order[i] = from[i].index;
}

}  // namespace attest
