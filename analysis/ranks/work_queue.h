// Numbered units of work that ranks share through a store: each is claimed by one, and given to another if its owner
// dies.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "analysis/ranks/job_store.h"

namespace attest {

/// Keys, below a prefix: `next`, the number of units handed out in order; `owner/U`, the token of who has unit U, or
/// that it is free or done; `beat/P`, a number that process P counts up while it lives; `done`, the number of finished
/// units, and `log/N`, which one was the N-th; `open`, written by rank 0 once all are handed out: the units that are
/// not finished, or that all are.
///
/// Units in order cost two round trips. Later ones are taken over from owners whose beat has not moved for the lease
/// time, by the clock of the rank that takes them; clocks of machines are not compared. An owner that was slow and not
/// dead finds its token replaced when it finishes. Thread-safe.
class WorkQueue {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::string prefix;  ///< of all keys
    int rank = 0;
    std::string process;  ///< names this process among all that ever were: random digits
    std::size_t units = 0;
    std::chrono::milliseconds lease{10000};
    std::chrono::milliseconds poll{20};  ///< between two looks at the units of others
    /// Rank 0: whether it knows a process to be silent for the lease time. Its units then go back at once. Without,
    /// ranks begin to watch the owner of a unit when nothing else is left.
    std::function<bool(const std::string& process)> is_silent{};
    std::function<Clock::time_point()> now = Clock::now;
  };
  enum class State : std::uint8_t { claimed, wait, end };
  struct Claim {
    State state = State::end;
    std::size_t unit = 0;
    std::string token{};
  };
  struct Finished {
    std::size_t unit = 0;
    std::string token;  ///< of the claim
    int rank() const;
  };

  WorkQueue(JobStore& store, Options options);

  /// Claims a unit. `wait`: all are taken, and some are not finished. `end`: all are.
  Claim next();
  /// False if another rank has taken the unit over in the meantime.
  bool finish(std::size_t unit, const std::string& token);
  /// Whether the unit is still this rank's.
  bool holds(std::size_t unit, const std::string& token);
  void give_back(std::size_t unit, const std::string& token);

  /// The number that a process counts up while it lives.
  static std::string beat_key(const std::string& prefix, const std::string& process) {
    return prefix + "beat/" + process;
  }

  // -- rank 0

  /// Units that ranks, this one included, have finished since the last call; each once.
  std::vector<Finished> take_finished();
  /// Tells the others which units are not finished once all are handed out; call it after take_finished(). Returns
  /// whether all are finished.
  bool publish_open();

 private:
  std::string key(const char* name) const { return options_.prefix + name; }
  std::string key(const char* name, const std::string& of) const { return options_.prefix + name + of; }
  std::string new_token();
  bool own(std::size_t unit, const std::string& before, Claim& claim);
  Claim take_over();
  /// Whether `what`, the beat of a process or the state of a unit, has been the same for the lease time.
  bool unchanged_for_a_lease(const std::string& what, const std::string& value);
  void add_finished(std::vector<Finished>& found, std::size_t unit, const std::string& token);

  struct Seen {
    std::string value;
    Clock::time_point since;
  };

  JobStore& store_;
  const Options options_;
  std::mutex mutex_;  ///< of the members below
  std::size_t claims_ = 0;
  bool handed_out_ = false, all_finished_ = false;
  Clock::time_point last_look_{};
  std::map<std::string, Seen> seen_;
  // Of rank 0:
  std::vector<bool> finished_;
  std::size_t num_finished_ = 0;
  std::int64_t log_read_ = 0;
  std::vector<std::int64_t> log_missing_;  ///< entries that are counted and not written yet
  std::string open_;                       ///< as last published
  Clock::time_point last_owner_check_{};
};

}  // namespace attest
