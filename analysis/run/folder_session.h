// Says in the folder of partial results that the ranks of a job are at work there: they use no locks, which network
// file systems may not keep.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "analysis/results/partial_results.h"

namespace attest {

/// A note with a token and a number that a thread counts up. One that a dead job has left is replaced: at once if its
/// process ran on this machine, else after the number has stood still for longer than that job's lease.
class FolderSession {
 public:
  using Notice = std::function<void(const std::string&)>;

  /// Throws OutputError if another job is at work, Interrupted if `stop` is set. `notice` is told if that takes time.
  FolderSession(PartialResults& partial, std::chrono::milliseconds lease, const std::atomic<bool>& stop,
                const Notice& notice);
  /// Removes the note.
  ~FolderSession();
  FolderSession(const FolderSession&) = delete;
  FolderSession& operator=(const FolderSession&) = delete;

  const std::string& token() const { return token_; }
  /// Call it often. Throws OutputError if another command has removed or replaced the note.
  void check() const;
  /// No more is written: this process is about to remove the folder itself.
  void end();

  /// Waits until it is clear that no ranks are at work; else throws OutputError. For a process without ranks.
  static void require_none(const std::string& folder, const std::atomic<bool>& stop, const Notice& notice);
  /// Whether this process sees the folder of the job with that token.
  static bool sees(const std::string& folder, const std::string& token);

 private:
  void beat(const std::stop_token& stop);
  void require_own() const;
  void write();

  PartialResults& partial_;
  const std::chrono::milliseconds lease_;
  const std::string token_;
  std::int64_t beats_ = 0;
  mutable std::mutex mutex_;  ///< of `error_`
  std::condition_variable_any changed_;
  std::exception_ptr error_;
  std::jthread thread_;  ///< last member: the thread uses all the others
};

}  // namespace attest
