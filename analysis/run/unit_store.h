// Stores finished units on threads of its own, so that the study need not wait for files.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "analysis/results/layer_results.h"
#include "analysis/run/unit_queue.h"
#include "analysis/study/study.h"

namespace attest {

/// Called with every unit of a study once it is stored, in no particular order, by several threads at once.
using UnitSink = std::function<void(const UnitKey&, const LayerResults&, UnitOrigin)>;

struct FinishedUnit {
  UnitKey unit;
  LayerResults results;  ///< empty if the unit is stored already: it was not computed by this process
  UnitOrigin origin = UnitOrigin::this_process;
};

/// Used by one thread. An exception of a storing thread is thrown by the next call, and all further units are dropped.
class UnitStore {
 public:
  /// `queue` and `sink` must outlive this object; `sink` may be empty.
  UnitStore(UnitQueue& queue, const UnitSink& sink, int threads);
  /// Stores what is still waiting.
  ~UnitStore() = default;

  /// Waits while several units are waiting to be stored.
  void put(FinishedUnit unit);
  struct Counts {
    std::size_t stored = 0;   ///< units, those of others included
    std::size_t resumed = 0;  ///< those that were stored before this process began
    std::size_t beside = 0;   ///< those of other processes
  };
  /// What was stored since the last call. A unit of others that could not be loaded is not counted.
  Counts take_stored();
  /// Waits until all units are stored.
  void drain();

 private:
  void run(const std::stop_token& stop);
  /// False if the unit could not be loaded: the queue hands it out again.
  bool store(FinishedUnit& finished);
  void rethrow();
  bool idle() const { return waiting_.empty() && storing_ == 0; }

  UnitQueue& queue_;
  const UnitSink& sink_;
  /// One waits while each thread stores one. More would not help: storing is either faster than studying or not.
  const std::size_t max_held_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<FinishedUnit> waiting_;
  std::size_t storing_ = 0;  ///< taken from `waiting_` by a thread
  Counts counts_;
  std::exception_ptr error_;
  std::vector<std::jthread> threads_;  ///< last member: the threads use all the others
};

}  // namespace attest
