// Ranks find each other through a store, and end together.
#include "analysis/ranks/rank_session.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "dumps/base/error.h"
#include "tests/analysis/ranks/memory_store.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLease{2000}, kWait{5000};

class RankSessionTest : public ::testing::Test {
 protected:
  static RankEnvironment rank(int number) {
    return {.launcher = "torchrun", .rank = number, .world = 3, .job = "job", .store_host = "host", .store_port = 1};
  }
  static void wait_for(const std::atomic<bool>& flag) {
    for (int i = 0; i < 500 && !flag; ++i) std::this_thread::sleep_for(milliseconds(10));
    EXPECT_TRUE(flag);
  }

  test::MemoryStore store_;
  std::atomic<bool> stop_ = false;
};

TEST_F(RankSessionTest, TheDescriptionReachesWhoComesBeforeAndAfter) {
  RankSession first(store_, rank(0), kLease, stop_), second(store_, rank(1), kLease, stop_),
      third(store_, rank(2), kLease, stop_);
  std::optional<std::string> early;
  std::jthread waiting([&] { early = second.join(kWait); });
  std::this_thread::sleep_for(milliseconds(50));
  first.open("the work");
  waiting.join();
  EXPECT_EQ(early, "the work");
  EXPECT_EQ(third.join(kWait), "the work");
  EXPECT_EQ(second.prefix(), first.prefix());
  ASSERT_EQ(first.members().size(), 2u);
  EXPECT_EQ(first.members()[0].rank, 1);
  first.complete();
  EXPECT_TRUE(first.is_complete());
}

TEST_F(RankSessionTest, WhoComesWhenAllIsDoneHasNothingToDo) {
  {
    RankSession first(store_, rank(0), kLease, stop_);
    first.open("the work");
    first.complete();
  }
  RankSession late(store_, rank(1), kLease, stop_);
  EXPECT_EQ(late.join(kWait), std::nullopt);
}

TEST_F(RankSessionTest, ALaterJobOfTheSameRanksIsNotTakenForTheFirst) {
  {
    RankSession first(store_, rank(0), kLease, stop_), second(store_, rank(1), kLease, stop_);
    first.open("one");
    EXPECT_EQ(second.join(kWait), "one");
    first.complete();
  }
  RankSession first(store_, rank(0), kLease, stop_), second(store_, rank(1), kLease, stop_);
  std::optional<std::string> found;
  std::jthread waiting([&] { found = second.join(kWait); });
  std::this_thread::sleep_for(milliseconds(50));
  first.open("two");
  waiting.join();
  EXPECT_EQ(found, "two");
}

TEST_F(RankSessionTest, AnErrorEndsAllAndIsRepeatedByRank0) {
  RankSession first(store_, rank(0), kLease, stop_), second(store_, rank(1), kLease, stop_),
      third(store_, rank(2), kLease, stop_);
  first.open("the work");
  second.join(kWait);
  third.join(kWait);
  try {
    throw InputError("dump.h5: is damaged");
  } catch (...) {
    second.fail();
  }
  wait_for(first.stop());
  wait_for(third.stop());
  EXPECT_EQ(message_of<InputError>([&] { first.throw_reason(); }), "rank 1: dump.h5: is damaged");
  EXPECT_EQ(message_of<InputError>([&] { third.throw_reason(); }), "this rank ends because rank 1 has failed");
}

TEST_F(RankSessionTest, AnErrorBeforeTheFirstWordEndsAllToo) {
  RankSession first(store_, rank(0), kLease, stop_), second(store_, rank(1), kLease, stop_);
  try {
    throw UsageError("--delta is 'x'");
  } catch (...) {
    second.fail();
  }
  first.open("the work");
  wait_for(first.stop());
  EXPECT_EQ(message_of<UsageError>([&] { first.throw_reason(); }), "rank 1: --delta is 'x'");
}

TEST_F(RankSessionTest, AnInterruptionOfOneEndsAll) {
  std::atomic<bool> own = false;
  RankSession first(store_, rank(0), kLease, stop_), second(store_, rank(1), kLease, own);
  first.open("the work");
  second.join(kWait);
  own = true;
  wait_for(first.stop());
  EXPECT_THROW(first.throw_reason(), Interrupted);
  EXPECT_NO_THROW(first.throw_reason_unless_interrupted());
}

TEST_F(RankSessionTest, Rank0SeesWhoIsSilent) {
  constexpr milliseconds kShort{200};
  RankSession first(store_, rank(0), kShort, stop_), third(store_, rank(2), kShort, stop_);
  std::optional<RankSession> second(std::in_place, store_, rank(1), kShort, stop_);
  first.open("the work");
  second->join(kWait);
  third.join(kWait);
  const std::string gone = second->process();
  EXPECT_FALSE(first.is_silent(gone));
  EXPECT_FALSE(first.is_silent("nobody"));
  second.reset();
  for (int i = 0; i < 500 && !first.is_silent(gone); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(first.is_silent(gone));
  EXPECT_FALSE(first.is_silent(third.process()));
  EXPECT_GE(first.members()[0].silent, kShort);
}

TEST_F(RankSessionTest, ALostStoreIsTheReason) {
  RankSession first(store_, rank(0), kLease, stop_);
  first.open("the work");
  store_.fail_after(0);
  wait_for(first.stop());
  EXPECT_THROW(first.throw_reason(), StoreLost);
}

TEST_F(RankSessionTest, Rank0ThatFallsSilentIsMissed) {
  RankSession second(store_, rank(1), milliseconds(100), stop_);
  {
    auto first = std::make_unique<RankSession>(store_, rank(0), milliseconds(100), stop_);
    first->open("the work");
    second.join(kWait);
  }
  wait_for(second.stop());
  EXPECT_TRUE(message_of<StoreLost>([&] { second.throw_reason(); }).starts_with("rank 0 has not been heard of for "));
}

TEST_F(RankSessionTest, WhatAnEarlierAttemptHasLeftEndsNobody) {
  RankEnvironment zero = rank(0), one = rank(1);
  zero.store_is_there = one.store_is_there = true;
  const auto interrupt = [](RankSession& session) {
    try {
      throw Interrupted("interrupted");
    } catch (...) {
      session.fail();
    }
  };
  std::atomic<bool> stopped = true;
  {
    RankSession first(store_, zero, kLease, stop_);  // killed: it neither opens nor ends
    RankSession second(store_, one, kLease, stopped);
    EXPECT_THROW(second.join(kWait), Interrupted);
    interrupt(second);
  }
  {
    RankSession first(store_, zero, kLease, stop_);  // interrupted before it has seen anybody
    interrupt(first);
  }
  std::optional<std::string> found;
  RankSession second(store_, one, kLease, stop_);
  std::jthread waiting([&] { found = second.join(kWait); });
  std::this_thread::sleep_for(milliseconds(200));
  RankSession first(store_, zero, kLease, stop_);
  first.open("the work");
  waiting.join();
  EXPECT_EQ(found, "the work");
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_FALSE(first.stop());
  EXPECT_FALSE(second.stop());
}

TEST_F(RankSessionTest, ARank0ThatPreparesForLongIsWaitedFor) {
  RankSession first(store_, rank(0), milliseconds(200), stop_), second(store_, rank(1), milliseconds(200), stop_);
  std::optional<std::string> found;
  std::jthread waiting([&] { found = second.join(milliseconds(500)); });
  std::this_thread::sleep_for(milliseconds(1500));
  first.open("the work");
  waiting.join();
  EXPECT_EQ(found, "the work");
}

TEST_F(RankSessionTest, WithoutRank0TheWaitEnds) {
  RankSession second(store_, rank(1), kLease, stop_);
  EXPECT_EQ(message_of<OutputError>([&] { second.join(milliseconds(1000)); }),
            "rank 0 has not answered within 1 s through the store at host:1: is it running, with the same command?");
}

}  // namespace
}  // namespace attest
