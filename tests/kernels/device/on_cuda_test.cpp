// on_cuda() and call_on_cuda() give null in a build without CUDA.
#include "kernels/device/on_cuda.h"

#include <gtest/gtest.h>

#include <memory>

namespace attest {
namespace {

int twice(int x) { return 2 * x; }
std::shared_ptr<const int> boxed(int x, const int& y) { return std::make_shared<const int>(x + y); }

TEST(OnCuda, IsTheFunctionOrNull) {
  int (*const function)(int) = on_cuda<twice>();
  EXPECT_EQ(function, ATTEST_HAS_CUDA ? &twice : nullptr);
}

TEST(OnCuda, CallsTheFunctionOrGivesNull) {
  const std::shared_ptr<const int> made = call_on_cuda<boxed, int, int>(3, 4);
  ASSERT_EQ(made != nullptr, ATTEST_HAS_CUDA != 0);
  if (made != nullptr) {
    EXPECT_EQ(*made, 7);
  }
}

}  // namespace
}  // namespace attest
