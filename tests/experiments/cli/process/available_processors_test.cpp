// Processors of this process, and CPU quotas of made cgroups.
#include "experiments/cli/process/available_processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

class CpuQuota : public testing::Test {
 protected:
  int quota() const { return cpu_quota({.list = root_.file("list"), .root = root_.path()}); }

  const ScratchFolder root_;
};

TEST_F(CpuQuota, OfTheGroupAndOfThoseAbove) {
  root_.write("list", "4:memory:/other\n0::/pods/one\n");
  EXPECT_EQ(quota(), 0) << "no file";
  root_.write("pods/one/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0) << "no limit";
  root_.write("pods/one/cpu.max", "800000 100000\n");
  EXPECT_EQ(quota(), 8);
  root_.write("pods/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota(), 3) << "two and a half";
  root_.write("other/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 3) << "of another version";
}

TEST_F(CpuQuota, OfAContainer) {
  root_.write("list", "0::/\n");
  root_.write("cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(CpuQuota, OfWhatIsNoQuota) {
  root_.write("list", "0::/\n");
  for (const char* text : {"", "many", "-1 100000", "100000", "100000 0", "nan nan"}) {
    root_.write("cpu.max", text);
    EXPECT_EQ(quota(), 0) << text;
  }
  root_.write("list", "");
  root_.write("cpu.max", "100000 100000");
  EXPECT_EQ(quota(), 1) << "without a list the root";
}

TEST(AvailableProcessors, FollowTheAffinityMask) {
  int one = 0;
  std::thread([&] {  // the mask is a thread's
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    one = available_processors();
  })
      .join();
  EXPECT_EQ(one, 1);
  EXPECT_GE(available_processors(), 1);
}

}  // namespace
}  // namespace attest
