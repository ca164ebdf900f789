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

}  // namespace
}  // namespace attest
