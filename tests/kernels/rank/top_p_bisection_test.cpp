// The top-p bisection of the released kernel: it reaches p if token 0 has the largest weight, and keeps everything if
// token 0 has weight 0.
#include "kernels/rank/top_p_bisection.h"

#include <gtest/gtest.h>

#include "tests/cases.h"
#include "tests/kernels/plain.h"

namespace attest::test {
namespace {

std::vector<float> peaked_weights(std::size_t n, Random& random) {
  Row scores(n);
  for (double& s : scores) s = 3 * random.normal();
  scores[0] = *std::max_element(scores.begin(), scores.end()) + 0.1;
  const Row w = softmax(scores);
  return {w.begin(), w.end()};
}

double mass_above(const std::vector<float>& w, float threshold) {
  double sum = 0;
  for (float x : w) sum += x > threshold ? static_cast<double>(x) : 0;
  return sum;
}

TEST(TopPBisection, ReachesPWhereTokenZeroIsTheLargest) {
  Random random(51);
  for (int i = 0; i < 50; ++i) {
    const std::vector<float> w = peaked_weights(400, random);
    for (double p : {0.5, 0.85, 0.95}) {
      const float threshold = top_p_bisection(w, p);
      EXPECT_GE(mass_above(w, threshold), p);
      EXPECT_LT(mass_above(w, threshold), 1);
    }
  }
}

TEST(TopPBisection, KeepsEverythingWhereTokenZeroWeighsNothing) {
  Random random(52);
  std::vector<float> w = peaked_weights(400, random);
  w[0] = 0;
  EXPECT_EQ(top_p_bisection(w, 0.5), 0.0f);
}

TEST(TopPBisection, OneTokenIsKept) {
  const float threshold = top_p_bisection(std::vector<float>{1.0f}, 0.85);
  EXPECT_LT(threshold, 1.0f);
}

// A sum that overflowed once made all weights NaN. No weight is left out then: the threshold is 0 or NaN.
TEST(TopPBisection, EndsOnNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Random random(53);
  std::vector<float> w = peaked_weights(400, random);
  for (std::size_t i : {0u, 7u, 399u}) {
    w[i] = nan;
    for (double p : {0.0, 0.5, 1.0}) EXPECT_FALSE(top_p_bisection(w, p) > 0) << "of token " << i;
  }
  EXPECT_EQ(top_p_bisection(std::vector<float>(400, nan), 0.85), 0.0f);
}

}  // namespace
}  // namespace attest::test
