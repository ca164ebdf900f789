// Runs independent tasks on a few threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace attest {

/// Calls task(worker, index) for index 0 .. count-1, worker in 0 .. threads-1. After a task has thrown, no further
/// tasks begin. Once all workers have stopped, the exception of the lowest index is rethrown: the same one for any
/// number of threads.
template <class Task>
void parallel_for(int threads, std::size_t count, Task&& task) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr error;
  std::size_t error_index = count;
  std::mutex error_mutex;
  const auto work = [&](int worker) {
    std::size_t i = 0;
    try {
      for (i = next++; i < count; i = next++) task(worker, i);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (i < error_index) {
        error = std::current_exception();
        error_index = i;
      }
      next = count;
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      for (int w = 1; w < threads && static_cast<std::size_t>(w) < count; ++w) helpers.emplace_back(work, w);
    } catch (...) {  // no further thread can be started
      next = count;
      throw;
    }
    work(0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace attest
