// The ranks of a job find each other through a store, know who lives, and end together.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "analysis/ranks/job_store.h"
#include "analysis/ranks/rank_environment.h"
#include "analysis/ranks/silence.h"

namespace attest {

/// Each process has a name of its own. Rank 0 announces its name, below which all other keys are; the others say hello
/// there, and it answers once the work is described. So nothing that an earlier attempt has left in the store is taken
/// for this one's: who has said hello to a rank 0 that is gone says so again to the next one.
class RankSession {
 public:
  struct Member {
    int rank = 0;
    std::string host;
    std::chrono::milliseconds silent{};  ///< how long its heartbeat has been seen unchanged
  };

  /// `store` and `user_stop` must outlive this object. `lease`: how long a rank may be silent before it counts as dead;
  /// rank 0 may be for three times as long. Rank 0 announces itself. Throws StoreLost.
  RankSession(JobStore& store, const RankEnvironment& ranks, std::chrono::milliseconds lease,
              const std::atomic<bool>& user_stop);
  /// Tells the others that this rank leaves.
  ~RankSession();
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;

  JobStore& store() const { return store_; }
  bool is_first() const { return ranks_.rank == 0; }

  /// Rank 0: describes the work to all that have said hello and will.
  void open(const std::string& description);
  /// Others: waits for the description. Empty if the job was complete before this rank came. Throws OutputError if rank
  /// 0 has given no sign of life for `wait`, Interrupted, and the error that has ended the job.
  std::optional<std::string> join(std::chrono::milliseconds wait);

  /// Set when this rank is to end: the user or another rank says so, or the store or rank 0 is gone.
  const std::atomic<bool>& stop() const { return stop_; }
  /// Throws why stop() is set; nothing if it is not.
  void throw_reason() const;
  /// The same, but nothing if it is an interruption by a user.
  void throw_reason_unless_interrupted() const;
  /// The same, but only if this rank alone ends, because the store or rank 0 is gone.
  void throw_own_error() const;

  /// Rank 0: all work is done. The others leave.
  void complete();
  bool is_complete() const;
  /// All ranks end, because of the error that is being handled.
  void fail();
  /// Rank 0, where it has started the store: waits until the others have left, and some time for those that have not
  /// come yet. `notice` is told whom it waits for.
  void wait_for_others(const std::function<void(const std::string&)>& notice);

  /// Rank 0: all others that have said hello. Ascending by rank; one that was started again is there twice.
  std::vector<Member> members() const;
  /// Whether a member has been silent for the lease time.
  bool is_silent(const Member& member) const { return member.silent >= lease_; }
  /// The same of a process that has said hello.
  bool is_silent(const std::string& process) const;

  /// Rank 0, where it has started the store and has failed: waits a short time until the others know.
  void wait_until_heard() noexcept;

  /// Of this process, and the prefix of the session's keys.
  const std::string& process() const { return process_; }
  std::string prefix() const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kWelcomePoll{10};  ///< how late a rank begins
  static constexpr std::chrono::milliseconds kMostUntilHeard{3000};
  static constexpr const char* kComplete = "complete";

  static std::chrono::milliseconds since(Clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  }
  /// The rest of a text after what was read.
  static std::string rest_of(std::istringstream& text);

  struct Known {
    Member member;
    Silence silence;
  };

  void run(const std::stop_token& stop);
  void tick();
  void read_control();
  void read_hellos();
  void welcome(const std::string& hello);
  void watch_members();
  void watch_first();
  void leave_outcome();
  /// Whether the others that are alive have left.
  bool all_have_left();
  void end(const std::string& control);
  void fail(const std::string& control);
  /// What rank 0 has left for those that come after its end; empty if it has not, or this rank is none of them.
  std::optional<std::string> outcome_for_late(const std::string& first, Clock::time_point said);
  void fail_before_join(const std::string& control);
  void say_hello(const std::string& first);
  std::chrono::milliseconds between_beats() const;
  /// Of a process whose beats are watched.
  Silence no_silence() const { return Silence(2 * between_beats()); }
  std::string key(const std::string& first, const std::string& name) const;
  void pause(std::chrono::milliseconds time) const;

  JobStore& store_;
  const RankEnvironment ranks_;
  const std::chrono::milliseconds lease_;
  const std::atomic<bool>& user_stop_;
  const std::string root_, process_, host_;
  std::string session_;               ///< process of rank 0; of others empty until they have joined
  std::atomic<bool> opened_ = false;  ///< of rank 0
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;  ///< of the members below
  std::condition_variable_any changed_;
  std::string control_;  ///< "complete", "stop RANK" or "failed RANK KIND SENTENCE"; empty while the job runs
  std::exception_ptr error_;
  std::map<std::string, Known> members_;  ///< by process
  std::mutex hellos_mutex_;               ///< of the three below: who is welcomed is named in the outcome, too
  std::int64_t hellos_read_ = 0;
  std::vector<std::int64_t> hellos_missing_;  ///< counted, and not written yet
  bool outcome_left_ = false;
  Clock::time_point last_beat_{};
  Silence first_ = no_silence();  ///< of rank 0, as others see it
  std::jthread thread_;           ///< last member: the thread uses all the others
};

}  // namespace attest
