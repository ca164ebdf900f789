// Owning buffers of device memory and of page-locked host memory.
#pragma once

#include <cstddef>
#include <utility>

#include "dumps/base/error.h"

namespace attest {

/// The memory of a device, or the share of it that may be used, does not suffice. The caller may retry with smaller
/// chunks of work.
struct DeviceMemoryFull : DeviceError {
  using DeviceError::DeviceError;
};

/// A buffer that grows and never shrinks. Growing discards the content. `Memory` is the allocator, with static
/// functions std::byte* allocate(std::size_t), which throws DeviceError, and free(std::byte*).
template <class Memory>
class GrowingBuffer {
 public:
  GrowingBuffer() = default;
  explicit GrowingBuffer(std::size_t bytes) { reserve(bytes); }
  GrowingBuffer(GrowingBuffer&& other) noexcept { swap(other); }
  GrowingBuffer& operator=(GrowingBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~GrowingBuffer() { Memory::free(data_); }

  void reserve(std::size_t bytes) {
    if (bytes <= size_) return;
    Memory::free(std::exchange(data_, nullptr));
    size_ = 0;
    data_ = Memory::allocate(bytes);
    size_ = bytes;
  }
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void swap(GrowingBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// allocate() throws DeviceMemoryFull, with needed and free memory.
struct DeviceMemoryAllocator {
  static std::byte* allocate(std::size_t bytes);
  static void free(std::byte* data) noexcept;
  static std::size_t available();  ///< bytes that are free on the current device
};
struct PageLockedAllocator {
  static std::byte* allocate(std::size_t bytes);
  static void free(std::byte* data) noexcept;
};
using DeviceBuffer = GrowingBuffer<DeviceMemoryAllocator>;
using PageLockedBuffer = GrowingBuffer<PageLockedAllocator>;

}  // namespace attest
