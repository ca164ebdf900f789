// Stores finished units on a thread of its own, so that the study need not wait for files.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "analysis/results/layer_results.h"
#include "analysis/results/partial_results.h"
#include "analysis/study/study.h"

namespace attest {

/// Who computed a unit: this process, another one that runs beside it, or one that ended before this began.
enum class UnitOrigin : std::uint8_t { this_process, beside, before };

/// Called with every unit of a study once it is stored, from one thread at a time, in no particular order.
using UnitSink = std::function<void(const UnitKey&, const LayerResults&, UnitOrigin)>;

struct FinishedUnit {
  UnitKey unit;
  UnitClaim claim;       ///< released when the unit is stored
  LayerResults results;  ///< empty if the unit is stored already: it was not computed by this process
  UnitOrigin origin = UnitOrigin::this_process;
};

/// Used by one thread. An exception of the storing thread is thrown by the next call, and all further units are
/// dropped.
class UnitStore {
 public:
  /// Both arguments must outlive this object; `sink` may be empty.
  UnitStore(PartialResults& partial, const UnitSink& sink);
  /// Stores what is still waiting.
  ~UnitStore();

  /// Waits while several units are waiting to be stored.
  void put(FinishedUnit unit);
  /// Number of units stored since the last call.
  std::size_t take_stored();
  /// Waits until all units are stored.
  void drain();

 private:
  void run();
  void pass_on(const FinishedUnit& finished) const;
  void rethrow();

  PartialResults& partial_;
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
