// Units are stored and passed on once, by one thread in the order given; errors of storing threads reach their user.
#include "analysis/run/unit_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>
#include <vector>

#include "analysis/run/unit_queue.h"
#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

class UnitStoreTest : public ::testing::Test {
 protected:
  FinishedUnit unit(int layer, UnitOrigin origin = UnitOrigin::this_process) {
    FinishedUnit finished{.unit = {0, 0, layer}, .results = {}, .origin = origin};
    if (origin == UnitOrigin::this_process) finished.results.layer = layer;
    return finished;
  }

  ScratchFolder folder_;
  PartialResults partial_{folder_.file("partial"), PartialResults::Start::fresh, "{}"};
  StudyPlan plan_{.places = {}, .units = {{0, 0, 4}}, .notices = {}};
  UnitQueue queue_{partial_, plan_, false};
  std::vector<int> passed_on_;
  UnitSink sink_ = [this](const UnitKey& unit, const LayerResults& results, UnitOrigin origin) {
    EXPECT_EQ(unit.layer, results.layer);
    EXPECT_EQ(origin, unit.layer == 7 ? UnitOrigin::beside : UnitOrigin::this_process);
    passed_on_.push_back(unit.layer);
  };
};

TEST_F(UnitStoreTest, StoresAndPassesOn) {
  LayerResults seventh;
  seventh.layer = 7;
  partial_.store({0, 0, 7}, seventh);
  UnitStore store(queue_, sink_, 1);
  for (int layer = 0; layer < 20; ++layer)
    store.put(unit(layer, layer == 7 ? UnitOrigin::beside : UnitOrigin::this_process));
  store.drain();
  EXPECT_EQ(store.take_stored().stored, 20u);
  EXPECT_EQ(store.take_stored().stored, 0u);
  ASSERT_EQ(passed_on_.size(), 20u);
  for (int layer = 0; layer < 20; ++layer) {
    EXPECT_EQ(passed_on_[static_cast<std::size_t>(layer)], layer);
    EXPECT_TRUE(partial_.load({0, 0, layer}));
  }
}

TEST_F(UnitStoreTest, SeveralThreadsStoreAtTheSameTime) {
  constexpr int kThreads = 3;
  std::latch all_there(kThreads);  // a store of fewer threads would wait forever
  std::atomic<int> passed_on = 0;
  const UnitSink sink = [&](const UnitKey& unit, const LayerResults&, UnitOrigin) {
    if (unit.layer < kThreads) all_there.arrive_and_wait();
    ++passed_on;
  };
  UnitStore store(queue_, sink, kThreads);
  for (int layer = 0; layer < 20; ++layer) store.put(unit(layer));
  store.drain();
  EXPECT_EQ(store.take_stored().stored, 20u);
  EXPECT_EQ(passed_on, 20);
  for (int layer = 0; layer < 20; ++layer) EXPECT_TRUE(partial_.load({0, 0, layer}));
}

TEST_F(UnitStoreTest, DrainWaitsForTheUnitThatIsBeingStored) {
  std::atomic<bool> stored = false;
  const UnitSink slow = [&](const UnitKey&, const LayerResults&, UnitOrigin) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stored = true;
  };
  UnitStore store(queue_, slow, 2);
  store.put(unit(0));
  store.drain();
  EXPECT_TRUE(stored);
}

TEST_F(UnitStoreTest, AfterAnErrorOfOneThreadNoUnitIsTaken) {
  std::atomic<int> calls = 0;
  const UnitSink failing = [&](const UnitKey&, const LayerResults&, UnitOrigin) {
    ++calls;
    throw OutputError("disk full");
  };
  UnitStore store(queue_, failing, 3);
  const auto put_all = [&] {
    for (int layer = 0; layer < 100; ++layer) store.put(unit(layer));
    store.drain();
  };
  EXPECT_EQ(message_of<OutputError>(put_all), "disk full");
  EXPECT_LE(calls, 3);
}

TEST_F(UnitStoreTest, TheDestructorStoresWhatIsWaiting) {
  {
    UnitStore store(queue_, sink_, 1);
    for (int layer = 0; layer < 3; ++layer) store.put(unit(layer));
  }
  EXPECT_EQ(passed_on_, (std::vector<int>{0, 1, 2}));
}

TEST_F(UnitStoreTest, GivesTheLockBack) {
  PartialResults other(folder_.file("partial"), PartialResults::Start::resume, "{}");
  UnitStore store(queue_, sink_, 1);
  FinishedUnit finished = unit(4);
  EXPECT_EQ(queue_.next().unit.layer, 4);
  EXPECT_FALSE(other.try_lock({0, 0, 4}));
  store.put(std::move(finished));
  store.drain();
  EXPECT_TRUE(other.try_lock({0, 0, 4}));
}

TEST_F(UnitStoreTest, AnErrorIsThrownByTheNextCall) {
  const UnitSink failing = [](const UnitKey&, const LayerResults&, UnitOrigin) { throw OutputError("disk full"); };
  UnitStore store(queue_, failing, 1);
  store.put(unit(0));
  EXPECT_EQ(message_of<OutputError>([&] { store.drain(); }), "disk full");
  EXPECT_EQ(message_of<OutputError>([&] { store.put(unit(1)); }), "disk full");
  EXPECT_EQ(message_of<OutputError>([&] { store.take_stored(); }), "disk full");
}

TEST_F(UnitStoreTest, WhatWasStoredBeforeAnErrorCounts) {
  const UnitSink failing = [](const UnitKey& unit, const LayerResults&, UnitOrigin) {
    if (unit.layer == 1) throw OutputError("disk full");
  };
  UnitStore store(queue_, failing, 1);
  store.put(unit(0));
  store.drain();
  store.put(unit(1));
  EXPECT_EQ(message_of<OutputError>([&] { store.drain(); }), "disk full");
  EXPECT_EQ(store.take_stored().stored, 1u);
  EXPECT_EQ(message_of<OutputError>([&] { store.take_stored(); }), "disk full");
}

TEST_F(UnitStoreTest, AUnitThatCannotBeLoadedIsNeitherPassedOnNorCountedAndComesAgain) {
  folder_.write("partial/unit-0-0-4.bin", "damaged");
  EXPECT_EQ(queue_.next().state, UnitQueue::State::stored);
  EXPECT_EQ(queue_.next().state, UnitQueue::State::wait) << "it is being loaded";
  UnitStore store(queue_, sink_, 1);
  store.put(unit(4, UnitOrigin::before));
  store.drain();
  EXPECT_TRUE(passed_on_.empty());
  EXPECT_EQ(store.take_stored().stored, 0u);
  const UnitQueue::Next again = queue_.next();
  EXPECT_EQ(again.state, UnitQueue::State::compute);
  EXPECT_EQ(again.unit.layer, 4);
}

}  // namespace
}  // namespace attest
