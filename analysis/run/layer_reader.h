// Claims the units of a study one by one, reads their layers, and hands them over to the studying thread.
#pragma once

#include <span>
#include <stop_token>

#include "analysis/results/partial_results.h"
#include "analysis/run/layer_handover.h"
#include "analysis/study/study.h"
#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"
#include "dumps/format/estimate_reader.h"

namespace attest {

/// All references must outlive this object.
class LayerReader {
 public:
  LayerReader(const Study& study, const StudyPlan& plan, std::span<const DumpReader> dumps,
              std::span<const EstimateReader> estimates, int threads, PartialResults& partial, LayerHandover& handover)
      : study_(study),
        plan_(plan),
        dumps_(dumps),
        estimates_(estimates),
        threads_(threads),
        partial_(partial),
        handover_(handover) {}

  /// Delivers every unit of the plan, and those that another process has once it has finished them. Ends early if told
  /// to stop or if the folder of partial results is gone.
  void run(const std::stop_token& stop) noexcept;

 private:
  enum class Outcome { delivered, claimed_elsewhere, end };

  /// False if the study has ended.
  bool deliver_all(const std::stop_token& stop);
  Outcome deliver(const UnitKey& unit, const std::stop_token& stop);
  Delivery read(const UnitKey& unit, UnitClaim claim, std::unique_ptr<AttentionLayer> layer) const;

  const Study& study_;
  const StudyPlan& plan_;
  const std::span<const DumpReader> dumps_;
  const std::span<const EstimateReader> estimates_;
  const int threads_;
  PartialResults& partial_;
  LayerHandover& handover_;
};

}  // namespace attest
