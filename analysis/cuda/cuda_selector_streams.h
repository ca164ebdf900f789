// Streams in which the selectors of a chunk run side by side: a kernel of one row per thread block leaves much of a GPU
// idle.
#pragma once

#include <cstddef>
#include <deque>
#include <span>

#include "kernels/device/device_arena.h"
#include "kernels/device/stream.h"

namespace attest {

class CudaSelectorStreams {
 public:
  struct One {
    explicit One(DeviceArena& own) : arena(own) {}
    DeviceArena& arena;  ///< scratch memory of its own
    CudaStream stream;
    CudaEvent ended;
  };

  /// A stream for each arena.
  explicit CudaSelectorStreams(std::span<DeviceArena> arenas) {
    for (DeviceArena& arena : arenas) all_.emplace_back(arena);
  }

  /// That of a selector of the study: always the same, so that a chunk that is tried again follows the first try.
  const One& of(std::size_t selector) const { return all_[selector % all_.size()]; }
  /// Makes all wait for the work of `stream` so far.
  void begin(cudaStream_t stream) const {
    begin_.record(stream);
    for (const One& one : all_) begin_.make_wait(one.stream);
  }
  /// Makes `stream` wait for the work of all so far.
  void join(cudaStream_t stream) const {
    for (const One& one : all_) {
      one.ended.record(one.stream);
      one.ended.make_wait(stream);
    }
  }

 private:
  std::deque<One> all_;
  CudaEvent begin_;
};

}  // namespace attest
