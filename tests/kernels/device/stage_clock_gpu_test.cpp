// Device time and bytes, added up by stage.
#include <gtest/gtest.h>

#include "kernels/device/stage_clock.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

class StageClockTest : public OnGpu {};

TEST_F(StageClockTest, AddsUpStagesOfOneName) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  Gpu gpu;
  StageClock clock;
  std::vector<StageTime> times;
  void* memory = gpu.arena.take_bytes(kBytes);
  for (int i = 0; i < 3; ++i) {
    {
      StageClock::Stage stage(clock, "fill", gpu.stream, 10);
      for (int k = 0; k < 20; ++k) ATTEST_CUDA(cudaMemsetAsync(memory, i, kBytes, gpu.stream));
      stage.add_bytes(i);
    }
    const StageClock::Stage nothing(clock, "nothing", gpu.stream, 1);
  }
  gpu.stream.synchronize();
  clock.add_to(times);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].name, "fill");
  EXPECT_EQ(times[0].bytes, 33);
  EXPECT_EQ(times[1].name, "nothing");
  EXPECT_EQ(times[1].bytes, 3);
  EXPECT_GT(times[0].seconds, 60 * static_cast<double>(kBytes) / 1e14);  // no device writes 100 TB/s
  EXPECT_GT(times[0].seconds, times[1].seconds);
  EXPECT_GE(times[1].seconds, 0);

  const double seconds = times[0].seconds;
  clock.add_to(times);  // no new stages: changes nothing
  EXPECT_EQ(times[0].seconds, seconds);
  { const StageClock::Stage again(clock, "fill", gpu.stream, 5); }
  gpu.stream.synchronize();
  clock.add_to(times);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].bytes, 38);
}

TEST_F(StageClockTest, Forgets) {
  Gpu gpu;
  StageClock clock;
  std::vector<StageTime> times;
  { const StageClock::Stage stage(clock, "forgotten", gpu.stream, 5); }
  clock.forget();
  clock.add_to(times);
  EXPECT_TRUE(times.empty());
}

}  // namespace
}  // namespace attest::test
