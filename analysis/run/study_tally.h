// Counts the units of a study that several pipelines work on, and tells the observer, one thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

namespace attest {

struct StudyProgress {
  std::size_t finished = 0;  ///< units finished, including those of earlier runs
  std::size_t resumed = 0;   ///< units that were finished before this run
  std::size_t beside = 0;    ///< units that other processes have finished meanwhile
  std::size_t total = 0;
};

/// Callbacks, called by one thread at a time.
struct StudyObserver {
  std::function<void(const std::string& device)> started;
  std::function<void(const StudyProgress&)> progress;
  std::function<void(const std::string&)> notice;
  /// What the error about a layer that cannot be studied advises, where layers are not left out.
  std::string bad_layer_advice = "the same command with --skip-bad-layers --resume leaves this layer out";
};

/// Thread-safe.
class StudyTally {
 public:
  /// `observer` must outlive this object.
  StudyTally(const StudyObserver& observer, std::size_t total) : observer_(observer) { progress_.total = total; }

  /// `resumed` and `beside` are among them.
  void add_finished(std::size_t units, std::size_t resumed, std::size_t beside) {
    const std::lock_guard lock(mutex_);
    progress_.resumed += resumed;
    progress_.beside += beside;
    for (; units > 0; --units) {
      ++progress_.finished;
      observer_.progress(progress_);
    }
  }
  void notice(const std::string& text) {
    const std::lock_guard lock(mutex_);
    observer_.notice(text);
  }
  const std::string& bad_layer_advice() const { return observer_.bad_layer_advice; }

 private:
  const StudyObserver& observer_;
  std::mutex mutex_;
  StudyProgress progress_;
};

}  // namespace attest
