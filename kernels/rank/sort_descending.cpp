// Radix sort (least significant digit first) of doubles by the 33 leading bits of an order-preserving integer image.
// The other bits rarely matter: only runs with equal leading bits are sorted by them.
#include "kernels/rank/sort_descending.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

namespace attest {
namespace {

constexpr int kDigitBits = 11;
constexpr int kPasses = 3;                            // sign, exponent and 21 bits of the significand
constexpr int kRestBits = 64 - kPasses * kDigitBits;  // of the image, below the digits
constexpr std::size_t kBuckets = std::size_t{1} << kDigitBits;
constexpr std::size_t kSmall = 96;  // up to this size a comparison sort is faster

/// An integer whose ascending order is the descending order of the values; -0 and +0 have the same image. It orders
/// NaN, too: a comparison of the values themselves would be no order of a row with NaN, and sorting by it undefined.
std::uint64_t descending_sort_key(double value) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value + 0.0);
  return (bits >> 63) != 0 ? bits : ~bits & 0x7FFFFFFFFFFFFFFFull;
}

struct Entry {
  std::uint64_t image;
  std::uint32_t index;
};

std::size_t digit_of(std::uint64_t image, int pass) {
  return (image >> (kRestBits + pass * kDigitBits)) & (kBuckets - 1);
}

/// Completes the sort. Entries are already ordered by their digits; each run of equal digits is sorted stably by all
/// bits.
void sort_rest(std::vector<Entry>& entries) {
  for (std::size_t begin = 0; begin + 1 < entries.size();) {
    const std::uint64_t leading = entries[begin].image >> kRestBits;
    std::size_t end = begin + 1;
    bool sorted = true;
    for (; end < entries.size() && entries[end].image >> kRestBits == leading; ++end)
      sorted &= entries[end - 1].image <= entries[end].image;
    if (!sorted)
      std::stable_sort(entries.begin() + static_cast<std::ptrdiff_t>(begin),
                       entries.begin() + static_cast<std::ptrdiff_t>(end),
                       [](const Entry& a, const Entry& b) { return a.image < b.image; });
    begin = end;
  }
}

}  // namespace

void sort_descending(std::span<const double> values, std::span<std::uint32_t> order) {
  const std::size_t n = values.size();
  if (n <= kSmall) {
    for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::uint32_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return descending_sort_key(values[a]) < descending_sort_key(values[b]);
    });
    return;
  }
  static thread_local std::vector<Entry> from, to;
  static thread_local std::array<std::array<std::uint32_t, kBuckets>, kPasses> counts;
  from.resize(n);
  to.resize(n);
  for (auto& c : counts) c.fill(0);
  for (std::size_t i = 0; i < n; ++i) {
    from[i] = {descending_sort_key(values[i]), static_cast<std::uint32_t>(i)};
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
  sort_rest(from);
  for (std::size_t i = 0; i < n; ++i) order[i] = from[i].index;
}

}  // namespace attest
