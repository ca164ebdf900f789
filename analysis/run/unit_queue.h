// The units of a study that are still to be computed, shared by all that compute them: the GPUs of a process, and the
// processes that have the folder of the study in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "analysis/results/partial_results.h"
#include "analysis/run/device_lock.h"
#include "analysis/run/patience.h"
#include "analysis/study/study_plan.h"

namespace attest {

/// Who computed a unit: this process, another one that runs beside it, or one that ended before this began.
enum class UnitOrigin : std::uint8_t { this_process, beside, before };

/// Every unit of the plan is handed out once in this process: to be computed, or to be loaded when it is in the folder,
/// also when another process has computed it. A unit that cannot be loaded is handed out again. Thread-safe.
class UnitQueue {
 public:
  enum class State : std::uint8_t {
    compute,  ///< this process has the lock of `unit`
    stored,   ///< `unit` has a file: load() it
    wait,     ///< all are taken, and some are not finished: they may come back
    end,      ///< nothing is left for the caller
  };
  struct Next {
    State state = State::end;
    UnitKey unit{};
    UnitOrigin origin = UnitOrigin::this_process;
  };
  using Notice = std::function<void(const std::string&)>;

  /// Whether units that are finished get files in the folder.
  enum class Files : std::uint8_t { written, none };

  /// The references must outlive this object. `skip_bad_layers`: a layer that an earlier run has left out is finished.
  /// `notice` is told for whom this process waits, as often as Patience says.
  UnitQueue(PartialResults& partial, const StudyPlan& plan, bool skip_bad_layers, Notice notice = {},
            Files files = Files::written);

  /// Of a caller that may not compute now: what others finish alone, else `wait`.
  Next next(bool may_compute = true);
  /// For one of the pipelines that take units, by identity() and device() of its LayerStudy.
  DeviceLock device_lock(const std::string& identity, const std::string& device) const;
  /// Stores the results of a unit that was to be computed, if Files::written. Throws OutputError if they cannot be
  /// stored.
  void finish(const UnitKey& unit, LayerResults& results);
  /// A unit that is `stored`. Empty if its file is gone, is damaged or is not of this unit: it is handed out again.
  std::optional<LayerResults> load(const UnitKey& unit);

 private:
  struct Place {
    UnitKey unit;
    UnitOrigin origin;  ///< if it is stored
    bool unreadable = false;
  };
  std::optional<Place> take_place();
  /// Empty if it is not finished, and another process has it or the caller may not compute.
  std::optional<Next> take(const Place& place, bool may_compute);
  void tell_for_whom(const UnitKey& unit);

  PartialResults& partial_;
  const StudyPlan& plan_;
  const bool skip_bad_layers_;
  const Notice notice_;
  const Files files_;
  const std::set<UnitKey> before_;  ///< had a file when the queue was made
  std::mutex mutex_;
  std::size_t next_ = 0;       ///< in the plan
  std::deque<Place> others_;   ///< that other processes had when they were asked for, or that could not be loaded
  std::size_t to_load_ = 0;    ///< handed out as `stored`
  std::size_t in_hand_ = 0;    ///< in neither list, while a thread asks the folder for them
  bool others_first_ = false;  ///< so that they are taken over as they appear, and little is left to do at the end
  Patience patience_;
};

}  // namespace attest
