// Threads that run independent tasks, and wait between calls: to start fifteen threads takes half a millisecond, in
// which a layer of 128 MiB could have been read by a third.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

namespace attest {

class Workers {
 public:
  /// So many threads, of which the one that calls run() is one. The others start when they are first needed.
  Workers(int threads);  // NOLINT(google-explicit-constructor): where a number of threads is given, they serve one call
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Calls task(worker, index) for index 0 .. count-1, worker in 0 .. threads-1. After a task has thrown, no further
  /// tasks begin. Once all workers have stopped, the exception of the lowest index is rethrown: the same one for any
  /// number of threads. Another thread may call run() meanwhile: it begins with the threads that find no task left in
  /// earlier calls. Throws std::system_error, before any task, if a thread cannot be started.
  template <class Task>
  void run(std::size_t count, Task&& task) const {
    std::atomic<std::size_t> next{0};
    std::exception_ptr error;
    std::size_t error_index = count;
    std::mutex error_mutex;
    together(count, [&](int worker) {
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
    });
    if (error) std::rethrow_exception(error);
  }

 private:
  class Helpers;
  /// Calls work(0) on this thread and work(1), work(2), ... on others, of at most `maximum` in all, and waits for them.
  void together(std::size_t maximum, const std::function<void(int)>& work) const;

  const int threads_;
  const std::unique_ptr<Helpers> helpers_;
};

}  // namespace attest
