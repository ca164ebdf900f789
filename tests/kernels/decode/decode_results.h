// Comparison of a decode kernel's results with the plain form.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/decode/reference_decode.h"
#include "tests/near.h"

namespace attest::test {

/// Results of a call, from the device.
struct DecodeResults {
  std::vector<float> out, lse;  ///< [batch, Hq, Dv], [batch, Hq]
  std::vector<int> kept;        ///< [batch, Hkv]
};

/// What was compared, so that tests can assert that their case is not trivial.
struct DecodeCounts {
  int sub_blocks = 0, kept = 0, undecided = 0;
  double share() const { return sub_blocks == 0 ? 0 : static_cast<double>(kept) / sub_blocks; }
};

/// The first difference of a pair's results to the plain form with these flags; empty if they agree.
inline std::string decode_difference(const PlainDecode& plain, std::int64_t pair, const Kept& flags, double magnitude,
                                     const DecodeResults& found, const DecodeTolerance& tolerance) {
  const DecodeProblem& problem = plain.problem;
  const PlainOutput expected = plain.attend(pair, flags);
  const int group = problem.shape.group, value_dim = problem.shape.value_dim;
  const auto kept = static_cast<int>(count(flags));
  if (found.kept[static_cast<std::size_t>(pair)] != kept)
    return "kept " + std::to_string(found.kept[static_cast<std::size_t>(pair)]) + ", expected " + std::to_string(kept);
  double largest = 0;
  for (int t = 0; t < problem.length(pair); ++t)
    for (int d = 0; d < value_dim; ++d)
      largest = std::max(largest, std::fabs(static_cast<double>(problem.value(pair, t)[d])));
  const double of_score = tolerance.score * magnitude;
  const double half_ulp = problem.shape.element_type == ElementType::float16 ? 0x1p-11 : 0x1p-8;
  for (int h = 0; h < group; ++h) {
    const double lse = expected.lse[static_cast<std::size_t>(h)];
    const float found_lse = found.lse[static_cast<std::size_t>(pair * group + h)];
    if (!near(found_lse, lse, of_score + tolerance.weight + 0x1p-22 * std::fabs(lse)))
      return "lse of head " + std::to_string(h) + " is " + std::to_string(found_lse) + ", expected " +
             std::to_string(lse);
    for (int d = 0; d < value_dim; ++d) {
      const double out = expected.out[static_cast<std::size_t>(h * value_dim + d)];
      const float found_out = found.out[static_cast<std::size_t>((pair * group + h) * value_dim + d)];
      const double allowed = half_ulp * std::fabs(out) + (2 * of_score + 2 * tolerance.weight) * largest + 0x1p-24;
      if (!near(found_out, out, allowed))
        return "out of head " + std::to_string(h) + ", channel " + std::to_string(d) + " is " +
               std::to_string(found_out) + ", expected " + std::to_string(out) + " within " + std::to_string(allowed);
    }
  }
  return {};
}

/// Compares every pair's kept count, output and lse. Where rounding may decide up to three sub-blocks of a pair, the
/// results must be those of one of the possible decisions.
inline DecodeCounts expect_decoded(const PlainDecode& plain, const DecodeResults& found,
                                   const DecodeTolerance& tolerance = {}) {
  DecodeCounts counts;
  for (std::int64_t pair = 0; pair < plain.problem.pairs(); ++pair) {
    const PlainSelection selection = plain.select(pair);
    const std::vector<std::size_t> undecided = selection.undecided(tolerance);
    counts.sub_blocks += static_cast<int>(selection.flags.size());
    counts.kept += static_cast<int>(count(selection.flags));
    counts.undecided += static_cast<int>(undecided.size());
    EXPECT_LE(undecided.size(), 3u) << "pair " << pair << ": rounding decides too much";
    const std::size_t decisions = std::size_t{1} << std::min<std::size_t>(undecided.size(), 3);
    std::string difference;
    for (std::size_t decision = 0; decision < decisions; ++decision) {
      Kept flags = selection.flags;
      for (std::size_t i = 0; i < undecided.size() && i < 3; ++i)
        if ((decision >> i & 1) != 0) flags[undecided[i]] = !flags[undecided[i]];
      const std::string other = decode_difference(plain, pair, flags, selection.magnitude, found, tolerance);
      if (decision == 0 || other.empty()) difference = other;
      if (difference.empty()) break;
    }
    EXPECT_TRUE(difference.empty()) << "pair " << pair << " of length " << plain.problem.length(pair) << ", "
                                    << counts.undecided << " undecided: " << difference;
  }
  return counts;
}

}  // namespace attest::test
