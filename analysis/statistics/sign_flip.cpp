// Counts subsets of the differences: those whose signs a vector flips.
#include "analysis/statistics/sign_flip.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/base/not_defined.h"

namespace attest {
namespace {

/// Sums of subsets, each a few additions: partial sums of groups of eight differences are looked up.
class SubsetSums {
 public:
  explicit SubsetSums(std::span<const double> differences) : tables_((differences.size() + 7) / 8) {
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      tables_[t][0] = 0;
      for (std::size_t mask = 1; mask < tables_[t].size(); ++mask) {
        const std::size_t i = 8 * t + static_cast<std::size_t>(std::countr_zero(mask));
        tables_[t][mask] = tables_[t][mask & (mask - 1)] + (i < differences.size() ? differences[i] : 0);
      }
    }
  }

  /// Bit i % 64 of word i / 64 tells whether difference i is in the subset; bits beyond the last one are 0.
  double operator()(std::span<const std::uint64_t> words) const {
    double sum = 0;
    for (std::size_t t = 0; t < tables_.size(); ++t) sum += tables_[t][(words[t / 8] >> (t % 8 * 8)) & 0xFFU];
    return sum;
  }

 private:
  std::vector<std::array<double, 256>> tables_;
};

/// What the test needs to know of the subsets that it looks at.
struct Subsets {
  std::vector<double> means;  ///< of those that are not empty; 0 where the sum is 0 up to its rounding
  std::size_t empty = 0;
};

double rounding_of(std::span<const double> differences) {
  double size = 0;
  for (const double d : differences) size += std::abs(d);
  return 4 * static_cast<double>(differences.size()) * std::numeric_limits<double>::epsilon() * size;
}

double mean_of(double sum, double rounding, std::size_t count) {
  return std::abs(sum) <= rounding ? 0 : sum / static_cast<double>(count);
}

Subsets all_subsets(std::span<const double> differences) {
  const SubsetSums sums(differences);
  const double rounding = rounding_of(differences);
  Subsets subsets{.means = {}, .empty = 1};
  const std::uint64_t end = std::uint64_t{1} << differences.size();
  subsets.means.reserve(end - 1);
  for (std::uint64_t mask = 1; mask < end; ++mask)
    subsets.means.push_back(mean_of(sums({&mask, 1}), rounding, static_cast<std::size_t>(std::popcount(mask))));
  return subsets;
}

/// The observed vector and random ones, each with its negative: what is far from 0 on one side is so on the other.
Subsets drawn_subsets(std::span<const double> differences, const SignFlipOptions& options) {
  const SubsetSums sums(differences);
  const double rounding = rounding_of(differences);
  const std::size_t n = differences.size();
  std::vector<std::uint64_t> words((n + 63) / 64);
  const std::uint64_t last = n % 64 == 0 ? ~std::uint64_t{0} : (std::uint64_t{1} << n % 64) - 1;
  double total = 0;
  for (const double d : differences) total += d;

  Subsets subsets{.means = {mean_of(total, rounding, n)}, .empty = 1};
  subsets.means.reserve(1 + 2 * options.draws);
  const auto add = [&](double sum, std::size_t count) {
    if (count == 0)
      ++subsets.empty;
    else
      subsets.means.push_back(mean_of(sum, rounding, count));
  };
  std::mt19937_64 random(options.seed);
  for (std::size_t draw = 0; draw < options.draws; ++draw) {
    std::size_t count = 0;
    for (std::uint64_t& word : words) word = random();
    words.back() &= last;
    for (const std::uint64_t word : words) count += static_cast<std::size_t>(std::popcount(word));
    const double sum = sums(words);
    add(sum, count);
    add(total - sum, n - count);
  }
  return subsets;
}

}  // namespace

SignFlipResult sign_flip_test(std::span<const double> differences, const SignFlipOptions& options) {
  constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  const std::size_t n = differences.size();
  if (n == 0) return {.mean = kNaN, .p = 1, .low = -kUnbounded, .high = kUnbounded};
  Subsets subsets = n <= kMaxExactFlips ? all_subsets(differences) : drawn_subsets(differences, options);
  std::vector<double>& means = subsets.means;
  const auto all = static_cast<double>(means.size() + subsets.empty);

  SignFlipResult result;
  for (const double d : differences) result.mean += d;
  result.mean = mean_of(result.mean, rounding_of(differences), n);
  const auto beyond = [&](auto is_beyond) {
    return 2 * static_cast<double>(subsets.empty + static_cast<std::size_t>(std::ranges::count_if(means, is_beyond)));
  };
  if (result.mean > 0) result.p = std::min(1.0, beyond([](double mean) { return mean <= 0; }) / all);
  if (result.mean < 0) result.p = std::min(1.0, beyond([](double mean) { return mean >= 0; }) / all);

  // A shift is rejected on one side if, with the empty subsets, at most `maximum` of the means lie beyond it.
  const auto maximum = static_cast<std::size_t>((1 - options.confidence) * all / 2);
  if (maximum < subsets.empty) {
    result.low = -kUnbounded;
    result.high = kUnbounded;
    return result;
  }
  const auto rank = static_cast<std::ptrdiff_t>(maximum - subsets.empty);
  std::ranges::nth_element(means, means.begin() + rank);
  result.low = means[static_cast<std::size_t>(rank)];
  std::ranges::nth_element(means, means.end() - 1 - rank);
  result.high = means[means.size() - 1 - static_cast<std::size_t>(rank)];
  return result;
}

double smallest_sign_flip_p(std::size_t differences, const SignFlipOptions& options) {
  if (differences == 0) return 1;
  if (differences > kMaxExactFlips) return 1 / (1 + static_cast<double>(options.draws));
  return std::ldexp(1.0, 1 - static_cast<int>(differences));
}

}  // namespace attest
