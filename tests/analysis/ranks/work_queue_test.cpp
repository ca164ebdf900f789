// Each unit is finished once, whoever dies, hangs or comes late.
#include "analysis/ranks/work_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <set>

#include "tests/analysis/ranks/memory_store.h"

namespace attest {
namespace {

using State = WorkQueue::State;
using std::chrono::milliseconds;

class WorkQueueTest : public ::testing::Test {
 protected:
  /// The queue of a rank. `process`: another one for a rank that was started again.
  WorkQueue queue(int rank, std::size_t units, const std::string& process = "") {
    return WorkQueue(store_, {.prefix = "job/",
                              .rank = rank,
                              .process = process.empty() ? "p" + std::to_string(rank) : process,
                              .units = units,
                              .lease = milliseconds(100),
                              .poll = milliseconds(0),
                              .now = [this] { return now_; }});
  }
  void beat(int rank) { store_.add(WorkQueue::beat_key("job/", "p" + std::to_string(rank)), 1); }
  void pass(int ms) { now_ += milliseconds(ms); }

  test::MemoryStore store_;
  WorkQueue::Clock::time_point now_ = WorkQueue::Clock::now();
};

TEST_F(WorkQueueTest, HandsOutEachUnitOnceInTwoRoundTrips) {
  WorkQueue one = queue(0, 3), other = queue(1, 3);
  const int before = store_.calls();
  const WorkQueue::Claim a = one.next(), b = other.next(), c = one.next();
  EXPECT_EQ(store_.calls() - before, 6);
  EXPECT_EQ((std::set{a.unit, b.unit, c.unit}), (std::set<std::size_t>{0, 1, 2}));
  EXPECT_EQ(one.next().state, State::wait);
  EXPECT_TRUE(one.finish(a.unit, a.token));
  EXPECT_TRUE(other.finish(b.unit, b.token));
  EXPECT_TRUE(one.finish(c.unit, c.token));
  std::vector<int> ranks;
  for (const WorkQueue::Finished& finished : one.take_finished()) ranks.push_back(finished.rank());
  EXPECT_EQ(ranks, (std::vector<int>{0, 1, 0}));
  EXPECT_TRUE(one.take_finished().empty()) << "each once";
  EXPECT_EQ(other.next().state, State::wait) << "rank 0 has not said that all are finished";
  EXPECT_TRUE(one.publish_open());
  EXPECT_EQ(other.next().state, State::end);
  EXPECT_EQ(one.next().state, State::end);
}

TEST_F(WorkQueueTest, TakesOverFromWhoIsSilentForALease) {
  WorkQueue first = queue(0, 2), dead = queue(1, 2), second = queue(2, 2);
  const WorkQueue::Claim lost = dead.next(), alive = second.next();
  first.take_finished();
  first.publish_open();
  for (int i = 0; i < 9; ++i, pass(10), beat(2)) EXPECT_EQ(first.next().state, State::wait) << "within the lease";
  pass(20);
  beat(2);
  const WorkQueue::Claim taken = first.next();
  ASSERT_EQ(taken.state, State::claimed);
  EXPECT_EQ(taken.unit, lost.unit);
  EXPECT_EQ(first.next().state, State::wait) << "the beat of the other moves";
  EXPECT_FALSE(dead.finish(lost.unit, lost.token)) << "a late result is dropped";
  EXPECT_FALSE(dead.holds(lost.unit, lost.token));
  EXPECT_TRUE(first.finish(taken.unit, taken.token));
  EXPECT_TRUE(second.finish(alive.unit, alive.token));
  EXPECT_EQ(first.take_finished().size(), 2u);
}

TEST_F(WorkQueueTest, WhatRankZeroKnowsToBeSilentIsTakenAtOnce) {
  bool silent = false;
  WorkQueue first(store_, {.prefix = "job/",
                           .process = "p0",
                           .units = 1,
                           .lease = milliseconds(100),
                           .is_silent = [&](const std::string& process) { return process == "p1" && silent; },
                           .now = [this] { return now_; }});
  WorkQueue dead = queue(1, 1), other = queue(2, 1);
  const WorkQueue::Claim lost = dead.next();
  first.take_finished();
  first.publish_open();
  first.take_finished();
  EXPECT_EQ(other.next().state, State::wait) << "the owner lives";
  silent = true;
  pass(26);  // rank 0 looks four times in a lease
  beat(1);   // without rank 0's word, this would keep the unit for another lease
  EXPECT_TRUE(first.take_finished().empty());
  EXPECT_EQ(other.next().state, State::claimed);
  EXPECT_FALSE(dead.finish(lost.unit, lost.token));
}

TEST_F(WorkQueueTest, ARankThatWasStartedAgainIsAnotherProcess) {
  WorkQueue first = queue(0, 1), dead = queue(1, 1);
  dead.next();
  first.publish_open();
  WorkQueue again = queue(1, 1, "p1-again");
  EXPECT_EQ(again.next().state, State::wait);
  pass(101);
  EXPECT_EQ(again.next().state, State::claimed);
}

TEST_F(WorkQueueTest, WhatIsGivenBackIsTakenAtOnce) {
  WorkQueue first = queue(0, 1), other = queue(1, 1);
  const WorkQueue::Claim claim = other.next();
  first.publish_open();
  other.give_back(claim.unit, claim.token);
  const WorkQueue::Claim taken = first.next();
  EXPECT_EQ(taken.state, State::claimed);
  other.give_back(claim.unit, claim.token);
  EXPECT_TRUE(first.holds(taken.unit, taken.token)) << "not what another has now";
}

TEST_F(WorkQueueTest, AUnitWhoseTakerDiedBetweenTheTwoStepsIsNotLost) {
  WorkQueue first = queue(0, 1);
  store_.add("job/next", 1);
  first.publish_open();
  EXPECT_EQ(first.next().state, State::wait);
  pass(101);
  EXPECT_EQ(first.next().state, State::claimed);
}

TEST_F(WorkQueueTest, AUnitWhoseFinisherDiedBeforeItWroteTheLogIsNotLost) {
  for (const int calls : {1, 2}) {  // after the owner; after the number
    test::MemoryStore store;
    WorkQueue first(store, {.prefix = "job/", .process = "a", .units = 1, .lease = milliseconds(0), .now = [this] {
                              return now_;
                            }});
    WorkQueue dying(store, {.prefix = "job/", .rank = 1, .process = "b", .units = 1});
    const WorkQueue::Claim claim = dying.next();
    store.fail_after(calls);
    EXPECT_THROW(dying.finish(claim.unit, claim.token), StoreLost);
    store.fail_after(-1);
    EXPECT_TRUE(first.take_finished().empty());
    EXPECT_FALSE(first.publish_open());
    const std::vector<WorkQueue::Finished> found = first.take_finished();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].rank(), 1);
    EXPECT_EQ(found[0].token, claim.token);
    EXPECT_TRUE(first.publish_open());
  }
}

TEST_F(WorkQueueTest, NothingToDo) {
  WorkQueue first = queue(0, 0), other = queue(1, 0);
  EXPECT_TRUE(first.take_finished().empty());
  EXPECT_TRUE(first.publish_open());
  EXPECT_EQ(other.next().state, State::end);
}

/// Ranks claim, finish, hang, come back, die and are replaced, in random order.
TEST_F(WorkQueueTest, EachUnitIsFinishedOnceInAnyOrder) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto chance = [&](int percent) { return static_cast<int>(random() % 100) < percent; };
    test::MemoryStore store;
    const std::size_t units = random() % 12;
    struct Rank {
      std::string process;
      std::unique_ptr<WorkQueue> queue;
      std::deque<WorkQueue::Claim> held;
      bool hangs = false;
    };
    std::vector<Rank> ranks(2 + random() % 4);
    int processes = 0;
    const auto start = [&](std::size_t rank) {
      ranks[rank] = {.process = "q" + std::to_string(processes++), .queue = nullptr, .held = {}};
      ranks[rank].queue = std::make_unique<WorkQueue>(store, WorkQueue::Options{.prefix = "job/",
                                                                                .rank = static_cast<int>(rank),
                                                                                .process = ranks[rank].process,
                                                                                .units = units,
                                                                                .lease = milliseconds(100),
                                                                                .poll = milliseconds(0),
                                                                                .now = [this] { return now_; }});
    };
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) start(rank);
    std::vector<int> finished(units, 0), reported(units, 0);
    bool all = false;
    for (int step = 0; step < 100000 && !all; ++step) {
      pass(static_cast<int>(random() % 20));
      for (const Rank& rank : ranks)
        if (!rank.hangs) store.add(WorkQueue::beat_key("job/", rank.process), 1);
      for (const WorkQueue::Finished& one : ranks[0].queue->take_finished()) ++reported.at(one.unit);
      all = ranks[0].queue->publish_open();
      const std::size_t which = random() % ranks.size();
      Rank& rank = ranks[which];
      if (which > 0 && chance(3)) start(which);              // killed, and started again
      if (which > 0 && chance(5)) rank.hangs = !rank.hangs;  // SIGSTOP, SIGCONT
      if (rank.hangs) continue;
      if (chance(50) && rank.held.size() < 3) {
        WorkQueue::Claim claim = rank.queue->next();
        ASSERT_TRUE(claim.state != State::end || all || std::ranges::count(reported, 0) == 0) << seed;
        if (claim.state == State::claimed) rank.held.push_back(std::move(claim));
      } else if (!rank.held.empty()) {
        const WorkQueue::Claim claim = rank.held.front();
        rank.held.pop_front();
        if (chance(10))
          rank.queue->give_back(claim.unit, claim.token);
        else
          finished.at(claim.unit) += rank.queue->finish(claim.unit, claim.token);
      }
    }
    ASSERT_TRUE(all) << "seed " << seed;
    EXPECT_EQ(std::ranges::count(finished, 1), static_cast<std::ptrdiff_t>(units)) << "seed " << seed;
    EXPECT_EQ(reported, finished) << "seed " << seed;
  }
}

}  // namespace
}  // namespace attest
