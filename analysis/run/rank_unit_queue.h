// The queue of ranks: leases in a store, results in a folder that all see, or through the store.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "analysis/ranks/job_store.h"
#include "analysis/ranks/work_queue.h"
#include "analysis/results/partial_results.h"
#include "analysis/run/unit_queue.h"

namespace attest {

class RankUnitQueue final : public UnitQueue {
 public:
  /// All references must outlive this object. `units`: those to compute, as numbered in `work`. `sent_below`: prefix of
  /// the keys of results that go through `store`; empty: they go to the folder. Waits of sending end when `stop` is
  /// set.
  RankUnitQueue(WorkQueue& work, JobStore& store, PartialResults& partial, std::vector<UnitKey> units,
                std::string sent_below, const std::atomic<bool>& stop);

  Next next() override;
  bool finish(const UnitKey& unit, std::unique_ptr<UnitLease> lease, const LayerResults& results) override;
  LayerResults load(const UnitKey& unit) const override { return partial_.load_finished(unit); }

 private:
  void send(const std::string& token, const std::string& bytes);

  WorkQueue& work_;
  JobStore& store_;
  PartialResults& partial_;
  const std::vector<UnitKey> units_;
  const std::string sent_below_;
  const std::atomic<bool>& stop_;
  std::mutex sending_;            ///< of the member below
  std::deque<std::string> sent_;  ///< keys that rank 0 had not taken when they were last looked at
};

}  // namespace attest
