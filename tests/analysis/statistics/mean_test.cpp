// Means of values of which some are missing.
#include "analysis/statistics/mean.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace attest {
namespace {

TEST(Mean, IsThatOfTheValuesThatAreThere) {
  Mean mean;
  EXPECT_TRUE(std::isnan(mean.value()));
  mean.add(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(mean.value()));
  mean.add(1);
  mean.add(std::numeric_limits<double>::quiet_NaN());
  mean.add(4);
  EXPECT_EQ(mean.value(), 2.5);
  EXPECT_EQ(mean.count, 2);
}

}  // namespace
}  // namespace attest
