// Checks of CUDA calls: ATTEST_CUDA throws with call, file and line; ATTEST_CUDA_QUIET, for destructors, never throws.
#pragma once

#include <cuda_runtime_api.h>

namespace attest {

/// Clears the error and throws DeviceError unless `status` is cudaSuccess. Clearing keeps the device usable after a
/// failed allocation.
void check_cuda(cudaError_t status, const char* call, const char* file, int line);

/// Clears the error without throwing.
void clear_cuda_error(cudaError_t status) noexcept;

}  // namespace attest

#define ATTEST_CUDA(call) ::attest::check_cuda((call), #call, __FILE__, __LINE__)
#define ATTEST_CUDA_QUIET(call) ::attest::clear_cuda_error(call)
/// Use after a kernel launch; `kernel` is its name in the error message.
#define ATTEST_CUDA_LAUNCHED(kernel) ::attest::check_cuda(cudaGetLastError(), "launch of " #kernel, __FILE__, __LINE__)
