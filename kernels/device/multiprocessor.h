// Properties of the current device's multiprocessors, and opt-in to more than the default shared memory (48 KiB).
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
/// Maximum shared memory per block, in bytes.
inline std::size_t largest_shared_memory() {
  return static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

/// Static shared memory of a kernel that reduces values of 8 bytes over a block: it counts beside the dynamic.
inline constexpr std::size_t kReducingBytes = 32 * 8;

/// Allows the kernel to be launched with this much dynamic shared memory. Call it before each launch.
template <class... Arguments>
void allow_shared_memory(void (*kernel)(Arguments...), std::size_t bytes) {
  ATTEST_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

}  // namespace attest
