// Time in which the device was at work on any of several spans, which may overlap.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <list>

#include "kernels/device/stream.h"

namespace attest {

/// Spans end in the order in which they begin.
class BusyClock {
 public:
  /// begin() marks where a span begins in a stream; end(), where it ends in another that waits for all of its work.
  void begin(cudaStream_t stream) {
    if (free_.empty()) free_.emplace_back();
    running_.splice(running_.end(), free_, free_.begin());
    running_.back().begin.record(stream);
  }
  void end(cudaStream_t stream) { running_.back().end.record(stream); }
  /// How many spans have not been taken.
  std::size_t size() const { return running_.size(); }

  /// Seconds of the oldest `count` spans, all of them completed. What a span shares with those before it does not
  /// count.
  double take(std::size_t count) {
    double seconds = 0;
    for (; count > 0; --count) {
      const Span& span = running_.front();
      double own = span.end.seconds_since(span.begin);
      if (!last_.empty()) own = std::min(own, span.end.seconds_since(last_.front().end));
      seconds += own;
      free_.splice(free_.end(), last_);
      last_.splice(last_.end(), running_, running_.begin());
    }
    return seconds;
  }
  /// Drops all spans that were not taken.
  void forget() { free_.splice(free_.end(), running_); }

 private:
  struct Span {
    CudaEvent begin{CudaEvent::Timing::on}, end{CudaEvent::Timing::on};
  };

  std::list<Span> running_, last_, free_;  ///< last_: the one that was taken last
};

}  // namespace attest
