// What the current device's multiprocessors have, and shared memory beyond what every kernel may have.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/device/cuda_check.h"

namespace attest {

/// An attribute of the current device.
inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  ATTEST_CUDA(cudaGetDevice(&device));
  ATTEST_CUDA(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}
inline int num_multiprocessors() { return device_attribute(cudaDevAttrMultiProcessorCount); }
/// Bytes that a block may have.
inline std::size_t largest_shared_memory() {
  return static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

/// Lets launches of the kernel ask for that much; to be said before each.
template <class... Arguments>
void allow_shared_memory(void (*kernel)(Arguments...), std::size_t bytes) {
  ATTEST_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

}  // namespace attest
