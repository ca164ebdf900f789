// The order in which eight lanes are added, on which equal bits of all builds and of the GPU rest.
#include "kernels/base/lane_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace attest {
namespace {

/// Numbers of very different size, so that another order gives other bits.
std::vector<double> numbers(std::size_t n) {
  std::vector<double> all;
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < n; ++i) {
    state = state * 1664525 + 1013904223;
    all.push_back(std::ldexp(static_cast<double>(state) - 2e9, static_cast<int>(state >> 28) * 4 - 30));
  }
  return all;
}

/// The definition: lane i mod 8, then pairs at distances 4, 2 and 1.
double plain_sum(const std::vector<double>& x) {
  std::vector<double> lane(8, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) lane[i % 8] += x[i];
  for (std::size_t distance = 4; distance > 0; distance /= 2)
    for (std::size_t l = 0; l < distance; ++l) lane[l] += lane[l + distance];
  return lane[0];
}

TEST(LaneSum, AddsInTheOrderOfItsDefinition) {
  bool order_matters = false;
  for (const std::size_t n : {0, 1, 7, 8, 9, 16, 31, 100, 1000}) {
    const std::vector<double> x = numbers(n);
    const double found = lane_sum(n, [&](std::size_t i) { return x[i]; });
    EXPECT_EQ(found, plain_sum(x)) << n;
    double in_turn = 0;
    for (const double one : x) in_turn += one;
    order_matters = order_matters || in_turn != found;
  }
  EXPECT_TRUE(order_matters) << "else the test shows nothing";
}

TEST(LaneMax, IsTheLargestOfTheTermsAndTheStart) {
  for (const std::size_t n : {1, 7, 8, 9, 31})
    for (std::size_t place = 0; place < n; ++place)
      EXPECT_EQ(lane_max(n, -5, [&](std::size_t i) { return i == place ? 3.0 : -7.0; }), 3) << n << ' ' << place;
  EXPECT_EQ(lane_max(0, -5, [](std::size_t) { return 9.0; }), -5);
  EXPECT_EQ(lane_max(9, 4, [](std::size_t) { return -1.0; }), 4);
}

}  // namespace
}  // namespace attest
