// Scratch memory of the device.
#pragma once

#include <cstddef>
#include <vector>

#include "dumps/base/error.h"
#include "kernels/device/buffers.h"

namespace attest {

/// More was asked of a DeviceArena than its limit; the work may be cut into smaller parts.
struct DeviceMemoryFull : DeviceError {
  using DeviceError::DeviceError;
};

/// Scratch memory handed out in order and taken back in reverse order; nothing is ever given back to the device while
/// work goes on, so reuse needs no synchronisation within one stream. Grows on demand up to a limit.
class DeviceArena {
 public:
  explicit DeviceArena(std::size_t limit) : limit_(limit) {}

  /// 256-byte aligned, uninitialised. Throws DeviceMemoryFull beyond the limit.
  template <class T>
  T* take(std::size_t count) {
    return reinterpret_cast<T*>(take_bytes(count * sizeof(T)));
  }
  void* take_bytes(std::size_t bytes);

  /// Takes as much from the device at once, if the limit allows it, that an arena which has nothing yet need not grow
  /// in pieces.
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

  /// Makes one piece of what grew in several, so that less lies idle between them. The arena must be empty and the
  /// device too.
  void join_slabs();
  bool in_pieces() const { return slabs_.size() > 1; }
  void set_limit(std::size_t limit) { limit_ = limit; }
  std::size_t limit() const { return limit_; }

 private:
  std::vector<DeviceBuffer> slabs_;
  std::size_t slab_ = 0, used_ = 0;  // the place of the next piece
  std::size_t allocated_ = 0, limit_;
};

}  // namespace attest
