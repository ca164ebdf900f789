// Allocation of device memory. If it is short, the error gives needed and free memory.
#include "kernels/device/buffers.h"

#include <string>

#include "dumps/base/error.h"
#include "kernels/device/cuda_check.h"
#include "kernels/device/page_locked_memory.h"

namespace attest {

std::byte* DeviceMemoryAllocator::allocate(std::size_t bytes) {
  void* p = nullptr;
  if (cudaMalloc(&p, bytes) != cudaSuccess) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    ATTEST_CUDA_QUIET(cudaMemGetInfo(&free, &total));
    const auto mebibytes = [](std::size_t count) { return std::to_string((count + (1 << 20) - 1) >> 20) + " MiB"; };
    throw DeviceError("the GPU is out of memory: " + mebibytes(bytes) + " more are needed, " + mebibytes(free) +
                      " of " + mebibytes(total) + " are free");
  }
  return static_cast<std::byte*>(p);
}

void DeviceMemoryAllocator::free(std::byte* data) noexcept { ATTEST_CUDA_QUIET(cudaFree(data)); }

std::byte* PageLockedAllocator::allocate(std::size_t bytes) {
  return static_cast<std::byte*>(allocate_page_locked(bytes));
}

void PageLockedAllocator::free(std::byte* data) noexcept { free_page_locked(data); }

}  // namespace attest
