// GPU time per stage, measured with pairs of events in the stream.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device/stage_time.h"
#include "kernels/device/stream.h"

namespace attest {

class StageClock {
  struct Span {
    std::string name;
    double bytes = 0;
    CudaEvent begin{CudaEvent::Timing::on}, end{CudaEvent::Timing::on};
  };

 public:
  /// Measures the work that is enqueued between its construction and its destruction. `bytes` as in StageTime.
  class Stage {
   public:
    Stage(StageClock& clock, std::string name, cudaStream_t stream, double bytes)
        : span_(clock.next(std::move(name), bytes)), stream_(stream) {
      span_.begin.record(stream_);
    }
    void add_bytes(double bytes) { span_.bytes += bytes; }
    ~Stage() { ATTEST_CUDA_QUIET(cudaEventRecord(span_.end, stream_)); }
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

   private:
    Span& span_;
    cudaStream_t stream_;
  };

  /// Adds the stages since the last call to `times`. The device must have completed all of them.
  void add_to(std::vector<StageTime>& times) {
    const std::size_t count = std::exchange(used_, 0);
    for (std::size_t i = 0; i < count; ++i) {
      add(times, {spans_[i].name, spans_[i].end.seconds_since(spans_[i].begin), spans_[i].bytes});
    }
  }
  void forget() { used_ = 0; }

 private:
  Span& next(std::string name, double bytes) {
    if (used_ == spans_.size()) spans_.emplace_back();
    spans_[used_].name = std::move(name);
    spans_[used_].bytes = bytes;
    return spans_[used_++];
  }
  static void add(std::vector<StageTime>& times, const StageTime& span) {
    for (StageTime& time : times)
      if (time.name == span.name) {
        time.seconds += span.seconds;
        time.bytes += span.bytes;
        return;
      }
    times.push_back(span);
  }

  std::deque<Span> spans_;
  std::size_t used_ = 0;
};

}  // namespace attest
