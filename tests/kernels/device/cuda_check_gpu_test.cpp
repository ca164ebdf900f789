// The message of a failed CUDA call, and that the device remains usable.
#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "kernels/device/cuda_check.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

class CudaCheck : public OnGpu {};

TEST_F(CudaCheck, NamesCallAndPlaceAndClearsTheError) {
  void* data = nullptr;
  try {
    ATTEST_CUDA(cudaMalloc(&data, std::size_t{1} << 55));
    ADD_FAILURE() << "no error";
  } catch (const DeviceError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("cudaMalloc(&data"), std::string::npos) << what;
    EXPECT_NE(what.find(" kernels/device/cuda_check_gpu_test.cpp:"), std::string::npos) << what;
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_NO_THROW(ATTEST_CUDA(cudaMalloc(&data, 100)));
  EXPECT_NO_THROW(ATTEST_CUDA_QUIET(cudaFree(data)));
}

TEST_F(CudaCheck, TellsABuildForAnotherGpu) {
  try {
    ATTEST_CUDA(cudaErrorNoKernelImageForDevice);
    ADD_FAILURE() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(),
                 "this build has no kernels for this GPU: build attest on a machine that has it, or with "
                 "ATTEST_NATIVE=OFF");
  }
}

TEST_F(CudaCheck, QuietVariantOnlyClearsTheError) {
  void* data = nullptr;
  EXPECT_NO_THROW(ATTEST_CUDA_QUIET(cudaMalloc(&data, std::size_t{1} << 55)));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace attest::test
