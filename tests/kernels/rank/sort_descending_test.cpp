// The radix sort against a comparison sort.
#include "kernels/rank/sort_descending.h"

#include <gtest/gtest.h>

#include "tests/cases.h"
#include "tests/kernels/plain.h"

namespace attest::test {
namespace {

TEST(SortDescending, AgreesWithAStableComparisonSort) {
  Random random(21);
  for (std::size_t n : {0u, 1u, 2u, 95u, 96u, 97u, 98u, 1000u, 5000u})
    for (int kind = 0; kind < 6; ++kind) {
      Row values(n);
      for (double& x : values) {
        x = random.normal();
        if (kind == 1) x = static_cast<double>(random.below(4)) - 2;              // many ties
        if (kind == 2) x *= std::exp(random.uniform(-700, 700));                  // every exponent
        if (kind == 3) x = random.below(2) == 0 ? 0.0 : -0.0;                     // equal values, different bits
        if (kind == 5) x = 1 + 0x1p-40 * static_cast<double>(random.below(500));  // differ only in the last bits
        if (kind == 4) x = random.below(3) == 0 ? -std::numeric_limits<double>::infinity() : x;
      }
      std::vector<std::uint32_t> order(n);
      sort_descending(values, order);
      const std::vector<std::size_t> expected = descending(values);
      EXPECT_TRUE(std::equal(order.begin(), order.end(), expected.begin(), expected.end()))
          << n << " values of kind " << kind;
    }
}

TEST(SortDescending, HasOneOrderForNaN) {
  Random random(22);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t n : {5u, 96u, 97u, 3000u}) {
    Row values(n);
    for (double& x : values) x = random.below(3) == 0 ? nan : random.normal();
    std::vector<std::uint32_t> order(n);
    sort_descending(values, order);
    Row with_largest = values;  // NaN without a sign comes first
    for (double& x : with_largest) x = std::isnan(x) ? std::numeric_limits<double>::infinity() : x;
    const std::vector<std::size_t> expected = descending(with_largest);
    EXPECT_TRUE(std::equal(order.begin(), order.end(), expected.begin(), expected.end())) << n << " values";
  }
}

}  // namespace
}  // namespace attest::test
