// Measured memory and bus bandwidths are plausible for a real device.
#include <gtest/gtest.h>

#include "analysis/cuda/cuda_bandwidth.h"
#include "dumps/base/error.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

// Bytes per second: slower than any bus, faster than any memory.
constexpr double kMin = 1e8, kMax = 1e14;

class CudaBandwidthTest : public OnGpu {};

TEST_F(CudaBandwidthTest, IsPlausible) {
  const CudaBandwidth bandwidth = measure_cuda_bandwidth(0);
  EXPECT_GT(bandwidth.from_host, kMin);
  EXPECT_GT(bandwidth.device_copy, bandwidth.from_host) << "the device's memory is faster than the bus";
  EXPECT_LT(bandwidth.device_copy, kMax);
}

TEST_F(CudaBandwidthTest, NoSuchDeviceIsAnError) { EXPECT_THROW(measure_cuda_bandwidth(99), DeviceError); }

}  // namespace
}  // namespace attest::test
