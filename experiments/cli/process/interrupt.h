// How signals end a command: a study between two units of work, everything else at once and without leftovers.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace attest {

/// Starts the thread that waits for SIGINT, SIGTERM and, unless the parent ignores it, SIGHUP. Such a signal runs all
/// cleanups (dumps/base/cleanup.h) and ends the process with 130. The signals are blocked in all threads that are made
/// later, and across exec: a program that is started unblocks them. Call it once, before any other thread is made.
void end_on_signals();

/// While it lives, the first of these signals only sets the flag. A process that has not ended when the grace is over,
/// because it waits for a file system or a GPU, is ended as by a second signal. Used by one thread.
class InterruptFlag {
 public:
  /// The default is a second, less what the end itself takes.
  explicit InterruptFlag(std::chrono::milliseconds grace = std::chrono::milliseconds(850));
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

  /// Sets the flag after that time, as a signal does.
  void set_after(std::chrono::milliseconds time);
  /// Sets what the process says when it is ended because it has not ended within the grace.
  static void set_last_words(const std::string& sentence);
  /// Whether set_after() has set it.
  bool time_is_over() const { return time_is_over_; }

  const std::atomic<bool>& flag() const;

 private:
  std::atomic<bool> time_is_over_ = false;
  std::jthread timer_;
};

}  // namespace attest
