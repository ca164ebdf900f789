// Shared memory beyond what every kernel may have.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "kernels/device/cuda_check.h"

namespace attest {

/// Bytes of shared memory that a block of the current device may have.
inline std::size_t largest_shared_memory() {
  int device = 0, bytes = 0;
  ATTEST_CUDA(cudaGetDevice(&device));
  ATTEST_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return static_cast<std::size_t>(bytes);
}

/// Lets launches of the kernel ask for that much; to be said before each.
template <class... Arguments>
void allow_shared_memory(void (*kernel)(Arguments...), std::size_t bytes) {
  ATTEST_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

}  // namespace attest
