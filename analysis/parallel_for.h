// Independent tasks on a few threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace attest {

/// Calls task(worker, index) for index 0 .. count-1, worker in 0 .. threads-1; the first exception is rethrown when all
/// workers have stopped.
template <class Task>
void parallel_for(int threads, std::size_t count, Task&& task) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&](int worker) {
    try {
      for (std::size_t i = next++; i < count; i = next++) task(worker, i);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
      next = count;
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int w = 1; w < threads && static_cast<std::size_t>(w) < count; ++w) helpers.emplace_back(work, w);
    work(0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace attest
