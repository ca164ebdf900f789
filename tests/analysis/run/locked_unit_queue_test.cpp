// Leases by file locks: each unit is handed out once, and those of others as they are finished or given back.
#include "analysis/run/locked_unit_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using State = UnitQueue::State;

class LockedUnitQueueTest : public ::testing::Test {
 protected:
  static LayerResults results(int layer, bool done = true) {
    LayerResults made;
    made.layer = layer;
    made.done = done;
    return made;
  }

  ScratchFolder folder_;
  PartialResults partial_{folder_.file("partial"), PartialResults::Start::fresh, "{}"};
  const StudyPlan plan_{.places = {}, .units = {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}}, .notices = {}};
};

TEST_F(LockedUnitQueueTest, HandsOutEachUnitOnce) {
  LockedUnitQueue queue(partial_, plan_, false);
  std::vector<UnitQueue::Next> taken;
  for (int i = 0; i < 3; ++i) {
    taken.push_back(queue.next());
    EXPECT_EQ(taken.back().state, State::compute);
    EXPECT_EQ(taken.back().unit.layer, i);
  }
  EXPECT_EQ(queue.next().state, State::end) << "although none is finished";
  EXPECT_TRUE(queue.finish(taken[1].unit, std::move(taken[1].lease), results(1)));
  EXPECT_EQ(partial_.state({0, 0, 1}), UnitState::computed);
}

TEST_F(LockedUnitQueueTest, SaysWhatIsStoredAndByWhom) {
  partial_.store({0, 0, 0}, results(0));
  partial_.store({0, 0, 1}, results(1, false));
  for (const bool skip : {false, true}) {
    LockedUnitQueue queue(partial_, plan_, skip);
    const UnitQueue::Next first = queue.next();
    EXPECT_EQ(first.state, State::stored);
    EXPECT_EQ(first.origin, UnitOrigin::before);
    EXPECT_EQ(queue.load(first.unit).layer, 0);
    EXPECT_EQ(queue.next().state, skip ? State::stored : State::compute) << "a layer that was left out";
  }
}

TEST_F(LockedUnitQueueTest, TakesWhatAnotherGivesBackAndReportsWhatItFinishes) {
  PartialResults other_partial(folder_.file("partial"), PartialResults::Start::resume, "{}");
  LockedUnitQueue queue(partial_, plan_, false), other(other_partial, plan_, false);
  UnitQueue::Next first = other.next(), second = other.next();
  UnitQueue::Next own = queue.next();
  EXPECT_EQ(own.unit.layer, 2);
  EXPECT_EQ(queue.next().state, State::wait);
  other.finish(first.unit, std::move(first.lease), results(0));
  second.lease.reset();
  bool stored = false, given_back = false;
  for (UnitQueue::Next next = queue.next(); next.state != State::end; next = queue.next()) {
    if (next.state == State::stored) stored = next.unit.layer == 0 && next.origin == UnitOrigin::beside;
    if (next.state == State::compute) given_back = next.unit.layer == 1;
  }
  EXPECT_TRUE(stored);
  EXPECT_TRUE(given_back);
}

TEST_F(LockedUnitQueueTest, EndsWhenTheFolderIsGone) {
  LockedUnitQueue queue(partial_, plan_, false);
  PartialResults::remove_own_files(partial_.folder());
  EXPECT_EQ(queue.next().state, State::end);
}

}  // namespace
}  // namespace attest
