// Memory for the tensors of a layer.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <utility>

namespace attest {

/// Uninitialised bytes from a memory resource, which may give page-locked memory for copies to a device.
class LayerBuffer {
 public:
  explicit LayerBuffer(std::pmr::memory_resource* memory = std::pmr::get_default_resource()) : memory_(memory) {}
  LayerBuffer(LayerBuffer&& other) noexcept { *this = std::move(other); }
  LayerBuffer& operator=(LayerBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~LayerBuffer() { release(); }

  /// Reuses the allocation when it is large enough. A size that is not larger keeps the first bytes; else the content
  /// is undefined afterwards.
  void resize(std::size_t bytes) {
    if (bytes > capacity_) {
      release();
      data_ = static_cast<std::byte*>(memory_->allocate(bytes, kAlignment));
      capacity_ = bytes;
    }
    size_ = bytes;
  }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::pmr::memory_resource* memory() const { return memory_; }

 private:
  static constexpr std::size_t kAlignment = 64;
  void release() {
    if (data_ != nullptr) memory_->deallocate(data_, capacity_, kAlignment);
    data_ = nullptr;
    capacity_ = size_ = 0;
  }
  std::pmr::memory_resource* memory_ = std::pmr::get_default_resource();
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace attest
