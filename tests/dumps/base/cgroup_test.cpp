// Memory limits of made cgroups.
#include "dumps/base/cgroup.h"

#include <gtest/gtest.h>

#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

TEST(AvailableMemory, IsThatOfTheMachineOrTheLeastLimitOfTheGroups) {
  const ScratchFolder root;
  const auto available = [&] { return available_memory({.list = root.file("list"), .root = root.path()}); };
  root.write("list", "0::/pods/one\n");
  const std::uint64_t machine = available();
  EXPECT_GT(machine, std::uint64_t{1} << 26);
  for (const char* text : {"max\n", "", "many", "-1", "1e300", "nan"}) {
    root.write("pods/one/memory.max", text);
    EXPECT_EQ(available(), machine) << text;
  }
  root.write("pods/one/memory.max", "30000000\n");
  EXPECT_EQ(available(), 30000000u);
  root.write("pods/memory.max", "20000000\n");
  EXPECT_EQ(available(), 20000000u);
  root.write("memory.max", "40000000\n");
  EXPECT_EQ(available(), 20000000u);
}

}  // namespace
}  // namespace attest
