// Entry levels of a whole grid against each rule applied to one setting at a time.
#include "kernels/rank/entry_levels.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/cases.h"
#include "tests/kernels/plain.h"

namespace attest::test {
namespace {

/// Masses or scores: without ties, with many ties, or with zeros.
Row some_values(std::size_t n, int kind, Random& random) {
  Row values(n);
  for (double& x : values) {
    x = std::exp(3 * random.normal());
    if (kind == 1) x = static_cast<double>(1 + random.below(3));
    if (kind == 2) x = random.below(2) == 0 ? 0 : x;
  }
  values[0] = std::max(values[0], 1e-3);  // the total mass is not 0
  return values;
}

void expect_levels(const std::vector<Level>& levels, const Row& grid, const std::function<Kept(double)>& keep) {
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const Kept kept = keep(grid[i]);
    for (std::size_t j = 0; j < kept.size(); ++j)
      ASSERT_EQ(levels[j] <= i, kept[j] != 0) << "setting " << grid[i] << ", item " << j;
  }
}

class EntryLevels : public ::testing::TestWithParam<int> {
 protected:
  Random random{static_cast<std::uint64_t>(41 + GetParam())};
};

TEST_P(EntryLevels, OfThresholds) {
  for (std::size_t n : {1u, 2u, 60u, 300u}) {
    const Row values = some_values(n, GetParam(), random),
              thresholds{1e300, 8, 3, 3, 1, 0, -std::numeric_limits<double>::infinity()};
    std::vector<Level> levels(n);
    threshold_levels(values, thresholds, levels);
    expect_levels(levels, thresholds, [&](double threshold) {
      Kept kept;
      for (double x : values) kept.push_back(x >= threshold);
      return kept;
    });
  }
}

TEST_P(EntryLevels, OfTopN) {
  for (std::size_t n : {1u, 2u, 60u, 300u}) {
    const Row values = some_values(n, GetParam(), random);
    const std::vector<std::int64_t> counts{0, 0, 1, 2, 2, 17, 300};
    std::vector<Level> levels(n);
    top_n_levels(values, counts, levels);
    expect_levels(levels, Row(counts.begin(), counts.end()), [&](double count) { return best_n(values, count); });
  }
}

TEST_P(EntryLevels, OfTopP) {
  for (std::size_t n : {1u, 2u, 60u, 300u}) {
    const Row mass = some_values(n, GetParam(), random), shares{1e-9, 0.2, 0.5, 0.5, 0.85, 0.999, 1};
    Row weights = mass;
    for (double& w : weights) w /= std::accumulate(mass.begin(), mass.end(), 0.0);
    std::vector<Level> levels(n);
    top_p_levels(mass, shares, levels);
    expect_levels(levels, shares, [&](double p) { return smallest_share(weights, p, Kept(n, 1)); });
  }
}

constexpr const char* kKinds[] = {"distinct", "ties", "zeros"};
INSTANTIATE_TEST_SUITE_P(Values, EntryLevels, ::testing::Values(0, 1, 2),
                         [](const auto& info) { return kKinds[info.param]; });

// Three of ten equal weights sum to 0.3 with a rounding error. Whether they reach p = 0.3 must not depend on it.
TEST(TopPLevels, EqualWeightsDoNotDependOnRounding) {
  const Row mass(10, 0.1), shares{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};
  std::vector<Level> levels(10);
  top_p_levels(mass, shares, levels);
  for (std::size_t j = 0; j < 10; ++j) EXPECT_EQ(levels[j], j);
}

TEST(TopPLevels, OnlyWhatTheOrderListsTakesPart) {
  const Row mass{5, 100, 3, 100, 2};
  const std::vector<std::uint32_t> order{0, 2, 4};
  const Row shares{0.5, 0.8, 1};
  std::vector<Level> levels(5, Level{99});
  top_p_levels_of(mass, order, shares, levels);
  EXPECT_EQ(levels, (std::vector<Level>{0, 99, 1, 99, 2}));
}

}  // namespace
}  // namespace attest::test
