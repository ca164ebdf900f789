// Parsing of --device and --device-memory.
#include "analysis/layer/device.h"

#include <gtest/gtest.h>

#include "dumps/base/error.h"

namespace attest {
namespace {

TEST(DeviceMemory, IsAShareOrASize) {
  EXPECT_DOUBLE_EQ(parse_device_memory("80%").share, 0.8);
  EXPECT_EQ(parse_device_memory("80%").bytes, 0u);
  EXPECT_DOUBLE_EQ(parse_device_memory("12.5 %").share, 0.125);
  EXPECT_EQ(parse_device_memory("12GiB").bytes, std::uint64_t{12} << 30);
  EXPECT_EQ(parse_device_memory("1.5G").bytes, std::uint64_t{3} << 29);
  EXPECT_EQ(parse_device_memory("500 MB").bytes, 500000000u);
  EXPECT_EQ(parse_device_memory("4096").bytes, 4096u);
}

TEST(DeviceMemory, OtherTextIsAUsageError) {
  for (const char* text :
       {"", "%", "0%", "101%", "-1GiB", "12 apples", "nan", "inf", "1e300GiB", "0", "0.2", "80%%", "GiB"})
    EXPECT_THROW(parse_device_memory(text), UsageError) << text;
}

TEST(Device, TheCpuIsAlwaysThere) {
  EXPECT_EQ(resolve_device("cpu").kind, DeviceKind::cpu);
  EXPECT_NO_THROW(resolve_device("auto"));
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda1", "cuda:999", "cuda:1 "})
    EXPECT_THROW(resolve_device(text), UsageError) << text;
}

}  // namespace
}  // namespace attest
