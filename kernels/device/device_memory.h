// Memory of the device and page-locked memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "dumps/error.h"

namespace attest {

/// Bytes of shared memory that a block of the current device may have.
std::size_t largest_shared_memory();

/// More was asked of a DeviceArena than its limit; the work may be cut into smaller parts.
struct DeviceMemoryFull : DeviceError {
  using DeviceError::DeviceError;
};

/// Bytes on the device; grows, never shrinks, keeps nothing when it grows.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes) { reserve(bytes); }
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer();

  void reserve(std::size_t bytes);
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Scratch memory handed out in order and taken back in reverse order; nothing is ever given back to the device while work
/// goes on, so reuse needs no synchronisation within one stream. Grows on demand up to a limit.
class DeviceArena {
 public:
  explicit DeviceArena(std::size_t limit) : limit_(limit) {}

  /// 256-byte aligned, uninitialised. Throws DeviceMemoryFull beyond the limit.
  template <class T>
  T* take(std::size_t count) {
    return reinterpret_cast<T*>(take_bytes(count * sizeof(T)));
  }
  void* take_bytes(std::size_t bytes);

  /// Takes as much from the device at once, if the limit allows it, that an arena which has nothing yet need not grow in pieces.
  void reserve(std::size_t bytes);

  /// What is taken after the construction of a scope is free again after its destruction.
  class Scope {
   public:
    explicit Scope(DeviceArena& arena) : arena_(arena), slab_(arena.slab_), used_(arena.used_) {}
    ~Scope() {
      arena_.slab_ = slab_;
      arena_.used_ = used_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DeviceArena& arena_;
    std::size_t slab_, used_;
  };

  /// Makes one piece of what grew in several, so that less lies idle between them. The arena must be empty and the device too.
  void join_slabs();
  bool in_pieces() const { return slabs_.size() > 1; }
  void set_limit(std::size_t limit) { limit_ = limit; }
  std::size_t limit() const { return limit_; }
  std::size_t allocated() const { return allocated_; }

 private:
  std::vector<DeviceBuffer> slabs_;
  std::size_t slab_ = 0, used_ = 0;  // the place of the next piece
  std::size_t allocated_ = 0, limit_;
};

/// Page-locked bytes; grows, keeps nothing when it grows.
class PageLockedBuffer {
 public:
  PageLockedBuffer() = default;
  PageLockedBuffer(PageLockedBuffer&& other) noexcept { *this = std::move(other); }
  PageLockedBuffer& operator=(PageLockedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~PageLockedBuffer();
  void reserve(std::size_t bytes);
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Small arrays on their way to the device: taken over at once, fetched in stream order by a kernel of their own. (A copy would
/// queue behind a layer that is being copied on another stream.)
class Uploads {
 public:
  /// Device copy of `values`, alive as long as the arena's scope.
  template <class T>
  const T* put(std::span<const T> values, DeviceArena& arena, cudaStream_t stream) {
    return static_cast<const T*>(put_bytes(values.data(), values.size_bytes(), arena, stream));
  }
  /// All copies are done: their host memory may be used again.
  void reset() { slab_ = used_ = 0; }

 private:
  const void* put_bytes(const void* from, std::size_t bytes, DeviceArena& arena, cudaStream_t stream);
  std::vector<PageLockedBuffer> slabs_;
  std::size_t slab_ = 0, used_ = 0;
};

}  // namespace attest
