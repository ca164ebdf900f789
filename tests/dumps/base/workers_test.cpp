// Every task runs once, whatever the number of threads, and errors are those of one thread.
#include "dumps/base/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace attest {
namespace {

TEST(Workers, RunEveryTaskOnceInEveryCall) {
  for (int threads : {0, 1, 2, 5}) {
    const Workers workers(threads);
    for (std::size_t count : {0, 1, 2, 3, 100, 4, 1000, 1}) {
      std::vector<std::atomic<int>> calls(count);
      workers.run(count, [&](int worker, std::size_t i) {
        EXPECT_TRUE(worker == 0 || (worker > 0 && worker < threads));
        ++calls[i];
      });
      for (const std::atomic<int>& of_task : calls) EXPECT_EQ(of_task, 1) << threads << " threads, " << count;
    }
  }
}

TEST(Workers, ThreadsAreTheSameInEveryCall) {
  const Workers workers(4);
  std::set<std::thread::id> seen;
  std::mutex mutex;
  for (int call = 0; call < 20; ++call) {
    std::atomic<int> waiting = 0;
    workers.run(4, [&](int, std::size_t) {
      ++waiting;
      while (waiting < 4) std::this_thread::yield();  // so that each thread has one task
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
  }
  EXPECT_EQ(seen.size(), 4);
  EXPECT_TRUE(seen.contains(std::this_thread::get_id()));
}

TEST(Workers, TheErrorOfTheLowestIndexIsThrownAndTheNextCallWorks) {
  for (int threads : {1, 3}) {
    const Workers workers(threads);
    for (int call = 0; call < 50; ++call) {
      std::atomic<int> begun = 0;
      try {
        workers.run(1000, [&](int, std::size_t i) {
          ++begun;
          if (i >= 2) throw std::runtime_error(std::to_string(i));
        });
        FAIL() << "expected an error";
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "2");
      }
      EXPECT_LE(begun, 2 + threads);
      std::atomic<int> done = 0;
      workers.run(10, [&](int, std::size_t) { ++done; });
      EXPECT_EQ(done, 10);
    }
  }
}

TEST(Workers, ACallReturnsAfterAllTasks) {
  const Workers workers(3);
  std::atomic<int> done = 0;
  workers.run(3, [&](int, std::size_t i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * i));
    ++done;
  });
  EXPECT_EQ(done, 3);
}

/// Calls run() on a thread of its own: one task says that it has begun, and ends when `end` is set.
std::jthread one_long_task(const Workers& workers, std::atomic<bool>& begun, const std::atomic<bool>& end) {
  std::jthread caller([&] {
    workers.run(2, [&](int, std::size_t i) {
      if (i > 0) return;
      begun = true;
      begun.notify_one();
      end.wait(false);
    });
  });
  begun.wait(false);
  return caller;
}

TEST(Workers, ALaterCallHasTheThreadsThatAnEarlierOneNoLongerNeeds) {
  const Workers workers(3);
  for (int call = 0; call < 50; ++call) {
    std::atomic<bool> begun = false, end = false;
    const std::jthread earlier = one_long_task(workers, begun, end);
    std::atomic<int> waiting = 0;
    workers.run(2, [&](int worker, std::size_t) {
      EXPECT_LT(worker, 3);
      ++waiting;
      while (waiting < 2) std::this_thread::yield();  // ends only if two threads have a task
    });
    end = true;
    end.notify_one();
  }
}

TEST(Workers, CallsOfSeveralThreadsRunEveryTaskOnce) {
  const Workers workers(4);
  constexpr std::size_t kTasks = 64;
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < 3; ++caller)
    callers.emplace_back([&] {
      for (int call = 0; call < 200; ++call) {
        std::vector<std::atomic<int>> calls(kTasks);
        std::vector<std::atomic<int>> busy(4);
        workers.run(kTasks, [&](int worker, std::size_t i) {
          EXPECT_EQ(++busy[static_cast<std::size_t>(worker)], 1) << "two threads with one number";
          ++calls[i];
          --busy[static_cast<std::size_t>(worker)];
        });
        for (const std::atomic<int>& of_task : calls) EXPECT_EQ(of_task, 1);
      }
    });
}

}  // namespace
}  // namespace attest
