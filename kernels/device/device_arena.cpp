// Slab allocation of DeviceArena.
#include "kernels/device/device_arena.h"

#include <algorithm>
#include <string>
#include <utility>

namespace attest {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kSmallestSlab = std::size_t{32} << 20;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void* DeviceArena::take_bytes(std::size_t bytes) {
  bytes = aligned(std::max<std::size_t>(bytes, 1));
  for (;; ++slab_, used_ = 0) {
    if (slab_ == slabs_.size()) {
      const std::size_t left = limit_ - std::min(limit_, allocated_);
      if (bytes > left)
        throw DeviceMemoryFull("a layer needs more than the " + std::to_string(limit_ >> 20) +
                               " MiB of device memory that it may use beside keys and values: raise --device-memory, "
                               "or choose --device cpu");
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

void DeviceArena::release() {
  slabs_.clear();
  allocated_ = 0;
}

void DeviceArena::merge_slabs() {
  if (slabs_.size() < 2) return;
  slabs_.clear();
  const std::size_t bytes = std::exchange(allocated_, 0);
  slabs_.emplace_back(bytes);
  allocated_ = bytes;
}

}  // namespace attest
