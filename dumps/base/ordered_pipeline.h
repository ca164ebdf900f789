// Runs jobs on many threads and delivers their results in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace attest {

/// Calls produce(job, buffer) for jobs 0 .. jobs-1 on `threads` threads, each with its own Buffer, and then
/// consume(job, buffer) in job order, one call at a time. The first exception stops all threads and is rethrown here.
template <class Buffer>
void run_ordered(std::int64_t jobs, int threads, const std::function<void(std::int64_t, Buffer&)>& produce,
                 const std::function<void(std::int64_t, Buffer&)>& consume) {
  std::mutex mutex;
  std::condition_variable turn;
  std::int64_t next_job = 0, next_turn = 0;
  std::exception_ptr failure;

  const auto work = [&] {
    try {
      Buffer buffer{};
      for (;;) {
        std::int64_t job;
        {
          std::scoped_lock lock(mutex);
          if (next_job == jobs || failure) return;
          job = next_job++;
        }
        produce(job, buffer);
        {
          std::unique_lock lock(mutex);
          turn.wait(lock, [&] { return next_turn == job || failure; });
          if (failure) return;
        }
        consume(job, buffer);
        std::scoped_lock lock(mutex);
        ++next_turn;
        turn.notify_all();
      }
    } catch (...) {
      std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
      turn.notify_all();
    }
  };

  {
    std::vector<std::jthread> others;
    try {
      for (int i = 1; i < threads && i < jobs; ++i) others.emplace_back(work);
    } catch (...) {  // no further thread can be started
      std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
      turn.notify_all();
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace attest
