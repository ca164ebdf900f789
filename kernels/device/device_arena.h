// Stack allocator for device scratch memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device/buffers.h"

namespace attest {

/// Scratch memory that is allocated and released in stack order. No memory is returned to the device while work is
/// running, so reuse within one stream needs no synchronisation. Grows on demand, by slabs, up to a limit in bytes, and
/// as long as `spared` bytes are free after it. `Memory` is the allocator, as of GrowingBuffer, and has
/// std::size_t available(), what is free.
template <class Memory>
class StackArena {
 public:
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  explicit StackArena(std::size_t limit, std::size_t spared = 0) : limit_(limit), spared_(spared) {}

  /// 256-byte aligned, uninitialised. Throws DeviceMemoryFull beyond the limit, and where the memory does not suffice.
  template <class T>
  T* take(std::size_t count) {
    return reinterpret_cast<T*>(take_bytes(count * sizeof(T)));
  }
  void* take_bytes(std::size_t bytes) {
    bytes = aligned(std::max<std::size_t>(bytes, 1));
    std::size_t slab = slab_, used = used_;
    for (;; ++slab, used = 0) {
      if (slab == slabs_.size()) grow(bytes);
      if (used + bytes <= slabs_[slab].size()) break;
    }
    slab_ = slab, used_ = used + bytes;  // a slab that cannot be had leaves both as they were
    return slabs_[slab].data() + used;
  }

  /// Allocates one slab of this size in advance. Does nothing if the arena already has slabs, the limit is smaller, or
  /// the memory does not suffice: smaller chunks of work may then do with what there is.
  void reserve(std::size_t bytes) {
    if (!slabs_.empty() || bytes > limit_) return;
    try {
      add_slab(aligned(bytes));
    } catch (const DeviceMemoryFull&) {
    }
  }

  /// Its destructor releases everything that was taken since its construction.
  class Scope {
   public:
    explicit Scope(StackArena& arena) : arena_(arena), slab_(arena.slab_), used_(arena.used_) {}
    ~Scope() {
      arena_.slab_ = slab_;
      arena_.used_ = used_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StackArena& arena_;
    std::size_t slab_, used_;
  };

  /// Replaces several slabs by one of the same total size, to waste less memory at slab ends. Nothing may be taken from
  /// the arena, and the device must be idle.
  void merge_slabs() {
    if (slabs_.size() < 2) return;
    const std::size_t bytes = allocated_;
    release();
    try {
      add_slab(bytes);
    } catch (const DeviceMemoryFull&) {  // others were faster
    }
  }
  /// Returns all memory. Nothing may be taken from the arena, and the device must be idle.
  void release() {
    slabs_.clear();
    allocated_ = 0;
  }
  bool has_several_slabs() const { return slabs_.size() > 1; }
  void set_limit(std::size_t limit) { limit_ = limit; }
  std::size_t limit() const { return limit_; }

 private:
  static constexpr std::size_t kAlignment = 256, kSmallestSlab = std::size_t{32} << 20;

  static std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
  static std::string mebibytes(std::size_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

  /// By `bytes` at least, and by more if there is more, so that few slabs are needed.
  void grow(std::size_t bytes) {
    const std::size_t left = limit_ - std::min(limit_, allocated_);
    if (bytes > left)
      throw DeviceMemoryFull("scratch memory on the GPU: " + mebibytes(bytes) + " more are needed, " +
                             mebibytes(allocated_) + " of the " + mebibytes(limit_) + " that it may have are taken, " +
                             mebibytes(Memory::available()) + " of the GPU are free");
    const std::size_t generous = std::max(bytes, std::min(left, std::max(kSmallestSlab, allocated_ / 2)));
    try {
      add_slab(generous);
    } catch (const DeviceMemoryFull&) {
      if (generous == bytes) throw;
      add_slab(bytes);
    }
  }

  void add_slab(std::size_t bytes) {
    if (const std::size_t free = spared_ > 0 ? Memory::available() : kNoLimit; free - std::min(free, spared_) < bytes)
      throw DeviceMemoryFull("scratch memory on the GPU: " + mebibytes(bytes) + " more are needed, " + mebibytes(free) +
                             " are free, of which " + mebibytes(spared_) + " are left to others");
    slabs_.emplace_back(bytes);
    allocated_ += bytes;
  }

  std::vector<GrowingBuffer<Memory>> slabs_;
  std::size_t slab_ = 0, used_ = 0;  // where the next allocation starts: slab index, bytes used in this slab
  std::size_t allocated_ = 0, limit_, spared_;
};

using DeviceArena = StackArena<DeviceMemoryAllocator>;

}  // namespace attest
