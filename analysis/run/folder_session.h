// Says in the folder of partial results that the ranks of a job are at work there: they use no locks, which network
// file systems may not keep.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "analysis/results/partial_results.h"

namespace attest {

/// A note with a token and a number that is counted up. One that a dead job has left is replaced: at once if its
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
  /// Call it often. Throws OutputError if another job has replaced the note.
  void beat();

  /// Waits until it is clear that no ranks are at work; else throws OutputError. For a process without ranks.
  static void require_none(const PartialResults& partial, const std::atomic<bool>& stop, const Notice& notice);
  /// Whether this process sees the folder of the job with that token.
  static bool sees(const std::string& folder, const std::string& token);

 private:
  void write();

  PartialResults& partial_;
  const std::chrono::milliseconds lease_;
  const std::string token_;
  std::chrono::steady_clock::time_point last_beat_{};
  std::int64_t beats_ = 0;
};

}  // namespace attest
