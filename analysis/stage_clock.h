// GPU time by stage, from pairs of events in the stream.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "analysis/layer_study.h"
#include "kernels/device/stream.h"

namespace attest {

class StageClock {
  struct Span {
    std::string name;
    CudaEvent begin{CudaEvent::Timing::on}, end{CudaEvent::Timing::on};
  };

 public:
  /// What is enqueued between its construction and its destruction.
  class Stage {
   public:
    Stage(StageClock& clock, std::string name, cudaStream_t stream) : span_(clock.next(std::move(name))), stream_(stream) { span_.begin.record(stream_); }
    ~Stage() { ATTEST_CUDA_QUIET(cudaEventRecord(span_.end, stream_)); }
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

   private:
    Span& span_;
    cudaStream_t stream_;
  };

  /// Adds the stages since the last call, all of which the device has passed, to `times`.
  void add_to(std::vector<StageTime>& times) {
    const std::size_t count = std::exchange(used_, 0);
    for (std::size_t i = 0; i < count; ++i) {
      float milliseconds = 0;
      ATTEST_CUDA(cudaEventElapsedTime(&milliseconds, spans_[i].begin, spans_[i].end));
      add(times, spans_[i].name, milliseconds / 1000.0);
    }
  }
  void forget() { used_ = 0; }

 private:
  Span& next(std::string name) {
    if (used_ == spans_.size()) spans_.emplace_back();
    spans_[used_].name = std::move(name);
    return spans_[used_++];
  }
  static void add(std::vector<StageTime>& times, const std::string& name, double seconds) {
    for (StageTime& time : times)
      if (time.name == name) {
        time.seconds += seconds;
        return;
      }
    times.push_back({name, seconds});
  }

  std::deque<Span> spans_;
  std::size_t used_ = 0;
};

}  // namespace attest
