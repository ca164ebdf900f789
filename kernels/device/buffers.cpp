// Allocation of device memory. If it is short, the error gives needed and free memory.
#include "kernels/device/buffers.h"

#include <string>

#include "kernels/device/cuda_check.h"
#include "kernels/device/page_locked_memory.h"

namespace attest {

std::byte* DeviceMemoryAllocator::allocate(std::size_t bytes) {
  void* p = nullptr;
  const cudaError_t status = cudaMalloc(&p, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    ATTEST_CUDA_QUIET(cudaMemGetInfo(&free, &total));
    const auto mebibytes = [](std::size_t count) { return std::to_string((count + (1 << 20) - 1) >> 20) + " MiB"; };
    throw DeviceMemoryFull("the GPU is out of memory: " + mebibytes(bytes) + " more are needed, " + mebibytes(free) +
                           " of " + mebibytes(total) + " are free");
  }
  check_cuda(status, "cudaMalloc", __FILE__, __LINE__);
  return static_cast<std::byte*>(p);
}

std::size_t DeviceMemoryAllocator::available() {
  std::size_t free = 0, total = 0;
  ATTEST_CUDA(cudaMemGetInfo(&free, &total));
  return free;
}

void DeviceMemoryAllocator::free(std::byte* data) noexcept { ATTEST_CUDA_QUIET(cudaFree(data)); }

std::byte* PageLockedAllocator::allocate(std::size_t bytes) {
  return static_cast<std::byte*>(allocate_page_locked(bytes));
}

void PageLockedAllocator::free(std::byte* data) noexcept { free_page_locked(data); }

}  // namespace attest
