// The two checks of CUDA calls: one throws with call, file and line; one, for destructors, does not.
#pragma once

#include <cuda_runtime_api.h>

namespace attest {

/// Throws DeviceError unless `status` is cudaSuccess, and clears the error: a failed allocation leaves the device
/// usable.
void check_cuda(cudaError_t status, const char* call, const char* file, int line);

/// Clears the error and goes on.
void forget_cuda_error(cudaError_t status) noexcept;

}  // namespace attest

#define ATTEST_CUDA(call) ::attest::check_cuda((call), #call, __FILE__, __LINE__)
#define ATTEST_CUDA_QUIET(call) ::attest::forget_cuda_error(call)
/// After a launch; `kernel` names it in the error.
#define ATTEST_CUDA_LAUNCHED(kernel) ::attest::check_cuda(cudaGetLastError(), "launch of " #kernel, __FILE__, __LINE__)
