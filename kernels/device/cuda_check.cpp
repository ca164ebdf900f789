// Error message of a failed CUDA call.
#include "kernels/device/cuda_check.h"

#include <string>
#include <string_view>

#include "dumps/base/error.h"

namespace attest {

void check_cuda(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  if (status == cudaErrorNoKernelImageForDevice)
    throw DeviceError(
        "this build has no kernels for this GPU: build attest on a machine that has it, or with ATTEST_NATIVE=OFF");
  const std::string_view path = file;
  const std::size_t folder = path.rfind("/kernels/") != path.npos ? path.rfind("/kernels/") : path.rfind("/analysis/");
  throw DeviceError(std::string("the GPU reports '") + cudaGetErrorString(status) + "' from " + call + " at " +
                    std::string(folder == path.npos ? path : path.substr(folder + 1)) + ":" + std::to_string(line));
}

void clear_cuda_error(cudaError_t status) noexcept {
  if (status != cudaSuccess) cudaGetLastError();
}

}  // namespace attest
