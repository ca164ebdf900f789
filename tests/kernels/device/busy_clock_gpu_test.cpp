// Busy time of spans that overlap, and of spans with idle time between them.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "kernels/device/buffers.h"
#include "kernels/device/busy_clock.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

class BusyClockTest : public OnGpu {
 protected:
  /// Some milliseconds for each of `times`.
  void work(cudaStream_t stream, int times) const {
    for (int i = 0; i < 4 * times; ++i) ATTEST_CUDA(cudaMemsetAsync(memory_->data(), i, memory_->size(), stream));
  }
  /// A span that begins in one stream, with work there, and ends with more of it in the other.
  void span(BusyClock& clock, int times, int times_of_other) const {
    clock.begin(*stream_);
    work(*stream_, times);
    done_->record(*stream_);
    done_->make_wait(*other_);
    work(*other_, times_of_other);
    clock.end(*other_);
  }
  static double seconds(const CudaEvent& from, const CudaEvent& to) {
    to.synchronize();
    return to.seconds_since(from);
  }
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    stream_.emplace(), other_.emplace(), done_.emplace(), memory_.emplace(std::size_t{1} << 30);
  }

  std::optional<CudaStream> stream_, other_;
  std::optional<CudaEvent> done_;
  std::optional<DeviceBuffer> memory_;
};

TEST_F(BusyClockTest, WhatSpansShareCountsOnce) {
  BusyClock clock;
  const CudaEvent begin(CudaEvent::Timing::on), end(CudaEvent::Timing::on);
  begin.record(*stream_);
  for (int i = 0; i < 3; ++i) span(clock, 1, 3);  // the second begins while the first is in its other stream
  end.record(*other_);
  EXPECT_EQ(clock.size(), 3u);
  const double all = seconds(begin, end), first = clock.take(1), rest = clock.take(2);
  EXPECT_NEAR(first + rest, all, 0.02 * all);
  EXPECT_GT(first, 0);
  EXPECT_GT(rest, first / 2);  // of two spans; other programs may use the GPU, too
  EXPECT_EQ(clock.size(), 0u);
}

TEST_F(BusyClockTest, IdleTimeDoesNotCount) {
  BusyClock clock;
  const CudaEvent begin(CudaEvent::Timing::on), end(CudaEvent::Timing::on);
  begin.record(*stream_);
  for (int i = 0; i < 2; ++i) {
    span(clock, 1, 1);
    other_->synchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  end.record(*other_);
  const double all = seconds(begin, end), busy = clock.take(2);
  EXPECT_GT(all, 0.1);
  EXPECT_LT(busy, all - 0.09);
  EXPECT_GT(busy, 0);
  span(clock, 1, 1);
  clock.forget();
  EXPECT_EQ(clock.size(), 0u);
}

}  // namespace
}  // namespace attest::test
