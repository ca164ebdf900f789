// Stores finished units on a thread of its own, so that the study need not wait for files.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "analysis/results/layer_results.h"
#include "analysis/run/unit_queue.h"
#include "analysis/study/study.h"

namespace attest {

/// Called with every unit of a study once it is stored, in no particular order, by several threads at once.
using UnitSink = std::function<void(const UnitKey&, const LayerResults&, UnitOrigin)>;

struct FinishedUnit {
  UnitKey unit;
  std::unique_ptr<UnitLease> lease;  ///< null if the unit is stored already: it was not computed by this process
  LayerResults results;              ///< empty if the unit is stored already
  UnitOrigin origin = UnitOrigin::this_process;
};

/// Used by one thread. An exception of the storing thread is thrown by the next call, and all further units are
/// dropped.
class UnitStore {
 public:
  /// Both arguments must outlive this object; `sink` may be empty.
  UnitStore(UnitQueue& queue, const UnitSink& sink);
  /// Stores what is still waiting.
  ~UnitStore();

  /// Waits while several units are waiting to be stored.
  void put(FinishedUnit unit);
  /// Number of units stored since the last call, without those whose lease was lost.
  std::size_t take_stored();
  /// Waits until all units are stored.
  void drain();

 private:
  void run();
  /// False if the lease was lost.
  bool store(FinishedUnit& finished);
  void rethrow();

  UnitQueue& queue_;
  const UnitSink& sink_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FinishedUnit> waiting_;  ///< the front one is being stored
  std::size_t stored_ = 0;
  bool ended_ = false;
  std::exception_ptr error_;
  std::jthread thread_;  ///< last member: the thread uses all the others
};

}  // namespace attest
