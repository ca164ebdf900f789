// Allocation on the device and of page-locked memory.
#include "kernels/device/device_memory.h"

#include <algorithm>
#include <string>

#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kSmallestSlab = std::size_t{32} << 20;
constexpr std::size_t kSmallestUploadSlab = std::size_t{1} << 20;

constexpr int kFetchThreads = 256;

/// Reads page-locked memory of the host across the bus.
__global__ void fetch_kernel(const uint4* from, uint4* to, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * kFetchThreads;
  for (std::size_t i = blockIdx.x * kFetchThreads + threadIdx.x; i < count; i += stride) to[i] = from[i];
}

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string mebibytes(std::size_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

}  // namespace

std::size_t largest_shared_memory() {
  int device = 0, bytes = 0;
  ATTEST_CUDA(cudaGetDevice(&device));
  ATTEST_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return static_cast<std::size_t>(bytes);
}

DeviceBuffer::~DeviceBuffer() { ATTEST_CUDA_QUIET(cudaFree(data_)); }

void DeviceBuffer::reserve(std::size_t bytes) {
  if (bytes <= size_) return;
  ATTEST_CUDA(cudaFree(data_));
  data_ = nullptr;
  size_ = 0;
  void* p = nullptr;
  if (cudaMalloc(&p, bytes) != cudaSuccess) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    ATTEST_CUDA_QUIET(cudaMemGetInfo(&free, &total));
    throw DeviceError("the GPU is out of memory: " + mebibytes(bytes) + " more are needed, " + mebibytes(free) + " of " +
                      mebibytes(total) + " are free");
  }
  data_ = static_cast<std::byte*>(p);
  size_ = bytes;
}

void* DeviceArena::take_bytes(std::size_t bytes) {
  bytes = aligned(std::max<std::size_t>(bytes, 1));
  for (;; ++slab_, used_ = 0) {
    if (slab_ == slabs_.size()) {
      const std::size_t left = limit_ - std::min(limit_, allocated_);
      if (bytes > left)
        throw DeviceMemoryFull("a layer needs more than the " + mebibytes(limit_) + " of device memory that it may use beside keys and values: raise --device-memory, or choose --device cpu");
      slabs_.emplace_back(std::max(bytes, std::min(left, std::max(kSmallestSlab, allocated_ / 2))));
      allocated_ += slabs_.back().size();
    }
    if (used_ + bytes <= slabs_[slab_].size()) break;
  }
  void* p = slabs_[slab_].data() + used_;
  used_ += bytes;
  return p;
}

void DeviceArena::reserve(std::size_t bytes) {
  if (!slabs_.empty() || bytes > limit_) return;
  slabs_.emplace_back(aligned(bytes));
  allocated_ = slabs_.back().size();
}

void DeviceArena::join_slabs() {
  if (slabs_.size() < 2) return;
  slabs_.clear();
  const std::size_t bytes = std::exchange(allocated_, 0);
  slabs_.emplace_back(bytes);
  allocated_ = bytes;
}

PageLockedBuffer::~PageLockedBuffer() { ATTEST_CUDA_QUIET(cudaFreeHost(data_)); }

void PageLockedBuffer::reserve(std::size_t bytes) {
  if (bytes <= size_) return;
  ATTEST_CUDA(cudaFreeHost(data_));
  data_ = nullptr;
  size_ = 0;
  void* p = nullptr;
  ATTEST_CUDA(cudaHostAlloc(&p, bytes, cudaHostAllocPortable));
  data_ = static_cast<std::byte*>(p);
  size_ = bytes;
}

const void* Uploads::put_bytes(const void* from, std::size_t bytes, DeviceArena& arena, cudaStream_t stream) {
  void* to = arena.take_bytes(bytes);
  if (bytes == 0) return to;
  const std::size_t size = aligned(bytes);
  for (;; ++slab_, used_ = 0) {
    if (slab_ == slabs_.size()) slabs_.emplace_back().reserve(std::max(size, kSmallestUploadSlab));
    if (used_ + size <= slabs_[slab_].size()) break;
  }
  std::byte* staged = slabs_[slab_].data() + used_;
  used_ += size;
  std::memcpy(staged, from, bytes);
  std::memset(staged + bytes, 0, size - bytes);
  const std::size_t words = (bytes + sizeof(uint4) - 1) / sizeof(uint4);  // both sides are padded to more than that
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>((words + kFetchThreads - 1) / kFetchThreads, 64));
  fetch_kernel<<<blocks, kFetchThreads, 0, stream>>>(reinterpret_cast<const uint4*>(staged), static_cast<uint4*>(to), words);
  ATTEST_CUDA_LAUNCHED(fetch_kernel);
  return to;
}

}  // namespace attest
