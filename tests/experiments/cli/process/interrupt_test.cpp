// InterruptFlag: which signal is the first, and which one ends the process at once.
#include "experiments/cli/process/interrupt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace attest {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMoment{200};  // the thread that waits for signals has seen one; far below the grace of 850 ms
constexpr int kGoesOn = 7;

/// Ends with kGoesOn unless the signals ended the process before. With `limit` they come when the time is over.
[[noreturn]] void end_after_signals(int signals, bool limit, milliseconds grace = milliseconds(850)) {
  end_on_signals();
  InterruptFlag interrupt(grace);
  if (limit) {
    interrupt.set_after(milliseconds(1));
    while (!interrupt.time_is_over()) std::this_thread::sleep_for(milliseconds(1));
  }
  for (int i = 0; i < signals; ++i) {
    ::kill(::getpid(), SIGTERM);
    std::this_thread::sleep_for(kMoment);
  }
  ::_exit(interrupt.flag() ? kGoesOn : 0);
}

TEST(InterruptDeathTest, TheFirstSignalSetsTheFlagAndTheSecondEndsTheProcess) {
  EXPECT_EXIT(end_after_signals(1, false), testing::ExitedWithCode(kGoesOn), "");
  EXPECT_EXIT(end_after_signals(2, false), testing::ExitedWithCode(130), "interrupted");
}

TEST(InterruptDeathTest, TheProcessEndsWhenTheGraceIsOver) {
  EXPECT_EXIT(end_after_signals(1, false, kMoment / 2), testing::ExitedWithCode(130), "interrupted");
}

TEST(InterruptDeathTest, ASignalAfterTheTimeLimitIsTheFirst) {
  EXPECT_EXIT(end_after_signals(1, true), testing::ExitedWithCode(kGoesOn), "");
  EXPECT_EXIT(end_after_signals(2, true), testing::ExitedWithCode(130), "interrupted");
}

}  // namespace
}  // namespace attest
