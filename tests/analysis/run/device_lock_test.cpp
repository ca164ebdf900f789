// Of processes that have a GPU in common one computes; another goes on when it ends, or hangs, or has finished.
#include "analysis/run/device_lock.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "analysis/run/unit_queue.h"
#include "tests/analysis/run/unit_results.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using State = UnitQueue::State;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

class DeviceLockTest : public ::testing::Test {
 protected:
  std::unique_ptr<PartialResults> join() const {
    return std::make_unique<PartialResults>(folder_.file("partial"), PartialResults::Start::resume, "{}");
  }
  DeviceLock::Notice notice() {
    return [this](const std::string& text) { notices_.push_back(text); };
  }
  static bool gets_it_soon(DeviceLock& lock) {
    for (int tries = 0; tries < 100; ++tries) {
      if (lock.may_compute()) return true;
      std::this_thread::sleep_for(20ms);
    }
    return false;
  }
  ScratchFolder folder_;
  PartialResults partial_{folder_.file("partial"), PartialResults::Start::fresh, "{}"};
  std::vector<std::string> notices_;
};

TEST_F(DeviceLockTest, OneProcessHasADeviceAndAnotherGetsItAtItsEnd) {
  const std::unique_ptr<PartialResults> second = join();
  auto first = std::make_unique<DeviceLock>(partial_, "0123", "GPU 0", notice());
  DeviceLock next(*second, "0123", "GPU 0", notice()), elsewhere(*second, "4567", "GPU 1", notice());
  EXPECT_TRUE(first->may_compute());
  EXPECT_FALSE(next.may_compute());
  EXPECT_TRUE(elsewhere.may_compute());
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_EQ(notices_[0], partial_.self() + " computes this study on GPU 0: this process stands by, and goes on there " +
                             "if that one ends");
  first.reset();
  EXPECT_TRUE(gets_it_soon(next));
  EXPECT_EQ(notices_.size(), 1u);
}

TEST_F(DeviceLockTest, OthersUseADeviceWithoutIdentityAtTheSameTime) {
  const std::unique_ptr<PartialResults> second = join();
  DeviceLock first(partial_, "", "CPU", notice()), next(*second, "", "CPU", notice());
  EXPECT_TRUE(first.may_compute());
  EXPECT_TRUE(next.may_compute());
}

TEST_F(DeviceLockTest, HolderThatFinishesNothingKeepsNobodyWaiting) {
  const std::unique_ptr<PartialResults> second = join();
  DeviceLock first(partial_, "0123", "GPU 0", notice()), next(*second, "0123", "GPU 0", notice());
  const auto began = DeviceLock::Clock::now();
  EXPECT_TRUE(first.may_compute(began));
  EXPECT_FALSE(next.may_compute(began));
  EXPECT_FALSE(next.may_compute(began + 50s));
  partial_.store({0, 0, 0}, test::unit_results(0));
  EXPECT_FALSE(next.may_compute(began + 59s));
  EXPECT_FALSE(next.may_compute(began + 118s)) << "a layer was finished since";
  EXPECT_TRUE(next.may_compute(began + 119s));
  ASSERT_EQ(notices_.size(), 2u);
  EXPECT_EQ(notices_[1], "no layer was finished for 60 s: this process computes on GPU 0 beside " + partial_.self());
}

TEST_F(DeviceLockTest, NobodyWaitsForAStudyThatIsFinished) {
  const std::unique_ptr<PartialResults> second = join();
  DeviceLock first(partial_, "0123", "GPU 0", notice()), next(*second, "0123", "GPU 0", notice());
  EXPECT_TRUE(first.may_compute());
  EXPECT_FALSE(next.may_compute());
  PartialResults::remove_own_files(partial_.folder());
  EXPECT_TRUE(gets_it_soon(next));
}

TEST_F(DeviceLockTest, ProcessThatStandsByTakesOverWhatIsFinishedAndComputesNothing) {
  const StudyPlan plan{.places = {}, .units = {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}}, .notices = {}};
  std::unique_ptr<PartialResults> second = join();
  UnitQueue first(partial_, plan, false), next(*second, plan, false);
  EXPECT_EQ(first.next(true).unit.layer, 0);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(next.next(false).state, State::wait) << "although two units are free";
  LayerResults found = test::unit_results(0);
  first.finish({0, 0, 0}, found);
  UnitQueue::Next seen = next.next(false);
  for (int i = 0; i < 8 && seen.state == State::wait; ++i) seen = next.next(false);
  EXPECT_EQ(seen.state, State::stored);
  EXPECT_EQ(seen.unit.layer, 0);
  EXPECT_TRUE(next.load(seen.unit));
  std::vector<int> computed;
  for (seen = next.next(true); seen.state != State::end; seen = next.next(true)) {
    ASSERT_EQ(seen.state, State::compute);
    computed.push_back(seen.unit.layer);
  }
  EXPECT_EQ(computed.size(), 2u);
}

}  // namespace
}  // namespace attest
