// The number of CUDA's connections: set for this program alone, and the user's number stays.
#include "experiments/cli/process/gpu_connections.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace attest {
namespace {

constexpr char kName[] = "CUDA_DEVICE_MAX_CONNECTIONS";

TEST(GpuConnections, FewerThanCudaMakesAndTakenBack) {
  ::unsetenv(kName);
  limit_gpu_connections();
  EXPECT_STREQ(std::getenv(kName), "4");
  restore_gpu_connections();
  EXPECT_EQ(std::getenv(kName), nullptr);
}

TEST(GpuConnections, TheUsersNumberStays) {
  ::setenv(kName, "1", 1);
  limit_gpu_connections();
  EXPECT_STREQ(std::getenv(kName), "1");
  restore_gpu_connections();
  EXPECT_STREQ(std::getenv(kName), "1");
  ::unsetenv(kName);
}

}  // namespace
}  // namespace attest
