// Says what a thread waits for, if it waits for long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace attest {

/// Calls `say` on a thread of its own if the object lives for `after`.
class LateNotice {
 public:
  LateNotice(std::function<void(const std::string&)> say, std::string text,
             std::chrono::milliseconds after = std::chrono::seconds(5))
      : thread_([say = std::move(say), text = std::move(text), after](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any never;
          std::unique_lock lock(mutex);
          never.wait_for(lock, stop, after, [] { return false; });
          if (!stop.stop_requested()) say(text);
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace attest
