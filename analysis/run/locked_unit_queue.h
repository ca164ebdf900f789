// The queue of processes that share the folder of partial results: a lock on a file is the lease of a unit.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <set>

#include "analysis/results/partial_results.h"
#include "analysis/run/unit_queue.h"
#include "analysis/study/study_plan.h"

namespace attest {

/// Every unit of the plan is handed out once in this process: by state `compute`, or by `stored` once it is in the
/// folder, also when another process has computed it.
class LockedUnitQueue final : public UnitQueue {
 public:
  /// Both must outlive this object. `skip_bad_layers`: a layer that an earlier run has left out is finished.
  LockedUnitQueue(PartialResults& partial, const StudyPlan& plan, bool skip_bad_layers);

  Next next() override;
  bool finish(const UnitKey& unit, std::unique_ptr<UnitLease> lease, const LayerResults& results) override;
  LayerResults load(const UnitKey& unit) const override { return partial_.load_finished(unit); }

 private:
  /// Empty if another process has the unit.
  std::optional<Next> take(const UnitKey& unit, UnitOrigin origin);

  PartialResults& partial_;
  const StudyPlan& plan_;
  const bool skip_bad_layers_;
  const std::set<UnitKey> before_;  ///< had a file when the queue was made
  std::mutex mutex_;
  std::size_t next_ = 0;        ///< in the plan
  std::deque<UnitKey> others_;  ///< that other processes had when they were asked for
  bool others_first_ = false;   ///< so that they are taken over as they appear, and little is left to do at the end
};

}  // namespace attest
