// Each unit is handed out once, those of others as they are finished or given back, and what cannot be loaded again.
#include "analysis/run/unit_queue.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/analysis/run/unit_results.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using State = UnitQueue::State;

class UnitQueueTest : public ::testing::Test {
 protected:
  ScratchFolder folder_;
  PartialResults partial_{folder_.file("partial"), PartialResults::Start::fresh, "{}"};
  const StudyPlan plan_{.places = {}, .units = {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}}, .notices = {}};
};

TEST_F(UnitQueueTest, HandsOutEachUnitOnce) {
  UnitQueue queue(partial_, plan_, false);
  for (int i = 0; i < 3; ++i) {
    const UnitQueue::Next next = queue.next();
    EXPECT_EQ(next.state, State::compute);
    EXPECT_EQ(next.unit.layer, i);
  }
  EXPECT_EQ(queue.next().state, State::end) << "although none is finished";
  LayerResults found = test::unit_results(1);
  queue.finish({0, 0, 1}, found);
  EXPECT_EQ(partial_.state({0, 0, 1}), UnitState::computed);
  EXPECT_EQ(partial_.load({0, 0, 1})->computed_by, partial_.self());
}

TEST_F(UnitQueueTest, WritesNoFilesWhereWhoeverGetsTheResultsKeepsThem) {
  UnitQueue queue(partial_, plan_, false, {}, UnitQueue::Files::none);
  const UnitQueue::Next next = queue.next();
  LayerResults found = test::unit_results(0);
  queue.finish(next.unit, found);
  EXPECT_EQ(found.computed_by, partial_.self());
  EXPECT_EQ(partial_.state(next.unit), UnitState::missing);
  PartialResults other(folder_.file("partial"), PartialResults::Start::resume, "{}");
  EXPECT_TRUE(other.try_lock(next.unit)) << "it was given back";
}

TEST_F(UnitQueueTest, SaysWhatIsStoredAndByWhom) {
  partial_.store({0, 0, 0}, test::unit_results(0));
  partial_.store({0, 0, 1}, test::unit_results(1, false));
  for (const bool skip : {false, true}) {
    PartialResults other(folder_.file("partial"), PartialResults::Start::resume, "{}");
    UnitQueue queue(other, plan_, skip);
    const UnitQueue::Next first = queue.next(), second = queue.next();
    EXPECT_EQ(first.state, State::stored);
    EXPECT_EQ(first.origin, UnitOrigin::before);
    EXPECT_EQ(queue.load(first.unit)->layer, 0);
    EXPECT_EQ(second.state, State::stored);
    EXPECT_EQ(queue.load(second.unit).has_value(), skip) << "a layer that was left out";
    std::vector<int> computed;
    for (UnitQueue::Next next = queue.next(); next.state != State::end; next = queue.next()) {
      EXPECT_EQ(next.state, State::compute);
      computed.push_back(next.unit.layer);
    }
    EXPECT_EQ(computed, skip ? std::vector<int>{2} : (std::vector<int>{1, 2}));
  }
}

TEST_F(UnitQueueTest, TakesWhatAnotherGivesBackAndReportsWhatItFinishes) {
  auto others = std::make_unique<PartialResults>(folder_.file("partial"), PartialResults::Start::resume, "{}");
  UnitQueue queue(partial_, plan_, false), other(*others, plan_, false);
  EXPECT_EQ(other.next().unit.layer, 0);
  EXPECT_EQ(other.next().unit.layer, 1);
  EXPECT_EQ(queue.next().unit.layer, 2);
  EXPECT_EQ(queue.next().state, State::wait);
  LayerResults first = test::unit_results(0);
  other.finish({0, 0, 0}, first);
  others.reset();
  bool stored = false, given_back = false;
  for (UnitQueue::Next next = queue.next(); next.state != State::end; next = queue.next()) {
    if (next.state == State::stored) {
      stored = next.unit.layer == 0 && next.origin == UnitOrigin::beside;
      EXPECT_TRUE(queue.load(next.unit));
    }
    if (next.state == State::compute) given_back = next.unit.layer == 1;
  }
  EXPECT_TRUE(stored);
  EXPECT_TRUE(given_back);
}

// A unit that one thread is just asking for is in no list.
TEST_F(UnitQueueTest, DoesNotEndWhileAThreadAsksForTheLastUnit) {
  PartialResults others(folder_.file("partial"), PartialResults::Start::resume, "{}");
  const StudyPlan one{.places = {}, .units = {{0, 0, 0}}, .notices = {}};
  ASSERT_TRUE(others.try_lock({0, 0, 0}));
  UnitQueue queue(partial_, one, false);
  const auto count_ends = [&](int& ends) {
    for (int i = 0; i < 2000; ++i) ends += queue.next().state == State::end;
  };
  int first = 0, second = 0;
  std::thread thread(count_ends, std::ref(first));
  count_ends(second);
  thread.join();
  EXPECT_EQ(first + second, 0);
}

TEST_F(UnitQueueTest, EndsWhenTheFolderIsGone) {
  UnitQueue queue(partial_, plan_, false);
  PartialResults::remove_own_files(partial_.folder());
  EXPECT_EQ(queue.next().state, State::end);
}

}  // namespace
}  // namespace attest
