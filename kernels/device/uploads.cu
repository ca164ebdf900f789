// Staging of small arrays in page-locked memory, from which a kernel reads them over the bus.
#include <algorithm>
#include <cstring>

#include "kernels/device/cuda_check.h"
#include "kernels/device/uploads.h"

namespace attest {
namespace {

constexpr std::size_t kSmallestSlab = std::size_t{1} << 20;
constexpr std::size_t kPadding = 256;  // arrays are padded to the arena's alignment, so that whole words can be copied

constexpr int kFetchThreads = 256;

/// Copies from page-locked host memory to the device.
__global__ void fetch_kernel(const uint4* from, uint4* to, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * kFetchThreads;
  for (std::size_t i = blockIdx.x * kFetchThreads + threadIdx.x; i < count; i += stride) to[i] = from[i];
}

}  // namespace

const void* Uploads::put_bytes(const void* from, std::size_t bytes, DeviceArena& arena, cudaStream_t stream) {
  void* to = arena.take_bytes(bytes);
  if (bytes == 0) return to;
  const std::size_t size = (bytes + kPadding - 1) / kPadding * kPadding;
  for (;; ++slab_, used_ = 0) {
    if (slab_ == slabs_.size()) slabs_.emplace_back().reserve(std::max(size, kSmallestSlab));
    if (used_ + size <= slabs_[slab_].size()) break;
  }
  std::byte* staged = slabs_[slab_].data() + used_;
  used_ += size;
  std::memcpy(staged, from, bytes);
  std::memset(staged + bytes, 0, size - bytes);
  const std::size_t words = (bytes + sizeof(uint4) - 1) / sizeof(uint4);
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>((words + kFetchThreads - 1) / kFetchThreads, 64));
  fetch_kernel<<<blocks, kFetchThreads, 0, stream>>>(reinterpret_cast<const uint4*>(staged), static_cast<uint4*>(to),
                                                     words);
  ATTEST_CUDA_LAUNCHED(fetch_kernel);
  return to;
}

std::vector<const void*> Uploads::put_arrays(std::span<const std::span<const std::byte>> arrays, DeviceArena& arena,
                                             cudaStream_t stream) {
  std::vector<std::byte> joined;
  std::vector<std::size_t> begins;
  for (const std::span<const std::byte> array : arrays) {
    begins.push_back(joined.size());
    joined.insert(joined.end(), array.begin(), array.end());
    joined.resize((joined.size() + kPadding - 1) / kPadding * kPadding);
  }
  const auto* first = static_cast<const std::byte*>(put_bytes(joined.data(), joined.size(), arena, stream));
  std::vector<const void*> places;
  for (const std::size_t begin : begins) places.push_back(first + begin);
  return places;
}

}  // namespace attest
