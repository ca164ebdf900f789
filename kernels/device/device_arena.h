// Stack allocator for device scratch memory.
#pragma once

#include <cstddef>
#include <vector>

#include "dumps/base/error.h"
#include "kernels/device/buffers.h"

namespace attest {

/// A DeviceArena would exceed its limit. The caller may retry with smaller chunks of work.
struct DeviceMemoryFull : DeviceError {
  using DeviceError::DeviceError;
};

/// Scratch memory that is allocated and released in stack order. No memory is returned to the device while work is
/// running, so reuse within one stream needs no synchronisation. Grows on demand up to a limit, in bytes.
class DeviceArena {
 public:
  explicit DeviceArena(std::size_t limit) : limit_(limit) {}

  /// 256-byte aligned, uninitialised. Throws DeviceMemoryFull beyond the limit.
  template <class T>
  T* take(std::size_t count) {
    return reinterpret_cast<T*>(take_bytes(count * sizeof(T)));
  }
  void* take_bytes(std::size_t bytes);

  /// Allocates one slab of this size in advance. Does nothing if the arena already has slabs or the limit is smaller.
  void reserve(std::size_t bytes);

  /// Its destructor releases everything that was taken since its construction.
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

  /// Replaces several slabs by one of the same total size, to waste less memory at slab ends. Nothing may be taken from
  /// the arena, and the device must be idle.
  void merge_slabs();
  /// Returns all memory. Nothing may be taken from the arena, and the device must be idle.
  void release();
  bool has_several_slabs() const { return slabs_.size() > 1; }
  void set_limit(std::size_t limit) { limit_ = limit; }
  std::size_t limit() const { return limit_; }

 private:
  std::vector<DeviceBuffer> slabs_;
  std::size_t slab_ = 0, used_ = 0;  // where the next allocation starts: slab index, bytes used in this slab
  std::size_t allocated_ = 0, limit_;
};

}  // namespace attest
