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

std::size_t padded(std::size_t bytes) { return (bytes + kPadding - 1) / kPadding * kPadding; }

/// Copies an array to page-locked memory at once, and from there to the device in stream order. Both have room for its
/// padding.
void stage(std::span<const std::byte> array, std::byte* staged, void* to, cudaStream_t stream) {
  std::memcpy(staged, array.data(), array.size());
  std::memset(staged + array.size(), 0, padded(array.size()) - array.size());
  const std::size_t words = (array.size() + sizeof(uint4) - 1) / sizeof(uint4);
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>((words + kFetchThreads - 1) / kFetchThreads, 64));
  fetch_kernel<<<blocks, kFetchThreads, 0, stream>>>(reinterpret_cast<const uint4*>(staged), static_cast<uint4*>(to),
                                                     words);
  ATTEST_CUDA_LAUNCHED(fetch_kernel);
}

}  // namespace

const void* KeptUploads::find_or_fetch(std::span<const std::byte> array, cudaStream_t stream) {
  if (array.size() > kLargest) return nullptr;
  std::string key(sizeof stream + array.size(), '\0');
  std::memcpy(key.data(), &stream, sizeof stream);
  std::memcpy(key.data() + sizeof stream, array.data(), array.size());
  if (const auto found = places_.find(key); found != places_.end()) return found->second;
  const std::size_t size = padded(array.size());
  if (slabs_.empty() || slabs_.back().used + size > kSlab) {
    if (slabs_.size() == kMaxSlabs) return nullptr;
    slabs_.emplace_back();
  }
  Slab& slab = slabs_.back();
  std::byte* const to = slab.device.data() + slab.used;
  stage(array, slab.host.data() + slab.used, to, stream);
  slab.used += size;
  places_.emplace(std::move(key), to);
  return to;
}

const void* Uploads::put_bytes(const void* from, std::size_t bytes, DeviceArena& arena, cudaStream_t stream) {
  const std::span array(static_cast<const std::byte*>(from), bytes);
  if (kept_ != nullptr && bytes > 0)
    if (const void* const kept = kept_->find_or_fetch(array, stream)) return kept;
  auto* const to = static_cast<std::byte*>(arena.take_bytes(bytes));
  copy(array, to, stream);
  return to;
}

void Uploads::copy(std::span<const std::byte> array, std::byte* to, cudaStream_t stream) {
  if (!array.empty()) stage(array, take_staged(padded(array.size())), to, stream);
}

std::byte* Uploads::take_staged(std::size_t bytes) {
  for (;; ++slab_, used_ = 0) {
    if (slab_ == slabs_.size()) slabs_.emplace_back().reserve(std::max(bytes, kSmallestSlab));
    if (used_ + bytes <= slabs_[slab_].size()) break;
  }
  used_ += bytes;
  return slabs_[slab_].data() + used_ - bytes;
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
