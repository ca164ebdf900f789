// Sums of weighted values for many columns, against three plain loops.
#include "analysis/audit/weighted_sums.h"

#include <gtest/gtest.h>

#include "tests/cases.h"
#include "tests/near.h"

namespace attest::test {
namespace {

TEST(WeightedSumsTest, EveryShapeIsThatOfPlainLoops) {
  constexpr double kOrder = 1e-13;  // of sums of up to 40 numbers around 1
  Random random(3);
  for (const std::int64_t columns : {1, 3, 4, 9})
    for (const std::int64_t dim : {1, 7, 8, 20, 64})
      for (const std::int64_t count : {1, 40}) {
        const std::int64_t stride = count + 2, value_stride = dim + 3;
        std::vector<double> weights(static_cast<std::size_t>(columns * stride)),
            sums(static_cast<std::size_t>(columns * dim)), values(static_cast<std::size_t>(count * value_stride));
        for (auto* numbers : {&weights, &values, &sums})
          for (double& x : *numbers) x = random.normal();
        std::vector<double> plain = sums;
        for (std::int64_t c = 0; c < columns; ++c)
          for (std::int64_t d = 0; d < dim; ++d)
            for (std::int64_t t = 0; t < count; ++t)
              plain[static_cast<std::size_t>(c * dim + d)] += weights[static_cast<std::size_t>(c * stride + t)] *
                                                              values[static_cast<std::size_t>(t * value_stride + d)];
        add_weighted(weights.data(), columns, stride, values.data(), count, dim, value_stride, sums.data());
        for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_TRUE(relatively_near(sums[i], plain[i], kOrder));
      }
}

}  // namespace
}  // namespace attest::test
