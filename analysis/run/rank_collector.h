// Rank 0 takes over the units that ranks finish, while it computes some itself.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "analysis/ranks/rank_session.h"
#include "analysis/ranks/work_queue.h"
#include "analysis/results/partial_results.h"
#include "analysis/run/folder_session.h"
#include "analysis/run/study_tally.h"
#include "analysis/run/unit_store.h"

namespace attest {

/// All references must outlive the collector. An error ends the job for all ranks.
class RankCollector {
 public:
  struct Job {
    JobStore& store;
    WorkQueue& work;
    RankSession& session;
    const FolderSession& folder;
    PartialResults& partial;
    std::vector<UnitKey> units;                             ///< as numbered in `work`
    std::function<std::uint64_t(const UnitKey&)> bytes_of;  ///< in the dumps
    std::string sent_below;                                 ///< as of RankUnitQueue
    UnitSink sink;                                          ///< gets what others have finished
    std::function<void(const StudyProgress&)> progress;     ///< called by one thread at a time
    std::size_t resumed = 0, total = 0;                     ///< units that were finished before, and of the whole study
    int threads = 1;                                        ///< that load units
  };

  explicit RankCollector(Job job);
  ~RankCollector();
  RankCollector(const RankCollector&) = delete;
  RankCollector& operator=(const RankCollector&) = delete;

  /// A unit that this rank has computed and passed on itself. Thread-safe.
  void add_own(const UnitKey& unit) { count(0, unit); }

  /// Waits until all units are there. Throws what went wrong here, and Interrupted if the session ends.
  void wait();
  /// Throws what went wrong here, if anything did.
  void rethrow() const;

 private:
  void poll(const std::stop_token& stop);
  void load_all(const std::stop_token& stop);
  void take_over(const WorkQueue::Finished& finished, const std::stop_token& stop);
  LayerResults load(const WorkQueue::Finished& finished, const std::stop_token& stop) const;
  void count(int rank, const UnitKey& unit);
  std::string remark() const;
  void fail();

  const Job job_;
  mutable std::mutex mutex_;  ///< of the members below
  std::condition_variable_any changed_;
  std::deque<WorkQueue::Finished> pending_;
  std::size_t added_ = 0;
  std::uint64_t bytes_done_ = 0, bytes_total_ = 0;
  std::map<int, std::size_t> by_rank_;
  std::exception_ptr error_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex progress_mutex_;
  std::vector<std::jthread> threads_;  ///< last member: the threads use all the others
};

}  // namespace attest
