// Claims the units of a study one by one, reads their layers, and hands them over to the studying thread.
#pragma once

#include <atomic>
#include <span>
#include <stop_token>

#include "analysis/results/partial_results.h"
#include "analysis/run/input_hashes.h"
#include "analysis/run/layer_handover.h"
#include "analysis/run/unit_store.h"
#include "analysis/study/study.h"
#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"
#include "dumps/format/estimate_reader.h"

namespace attest {

struct StreamOptions {
  int reading_threads = 4;
  std::span<const EstimateReader> estimates{};  ///< for selectors whose estimates come from files
  InputHashes* hashes = nullptr;                ///< of the dumps, in their order; gets the blocks that are read
  UnitSink sink{};                              ///< gets every unit, also those finished by others
  const std::atomic<bool>* stop = nullptr;      ///< set when the user interrupts
};

/// All references must outlive this object.
class LayerReader {
 public:
  LayerReader(const Study& study, const StudyPlan& plan, std::span<const DumpReader> dumps,
              const StreamOptions& options, PartialResults& partial, LayerHandover& handover)
      : study_(study), plan_(plan), dumps_(dumps), options_(options), partial_(partial), handover_(handover) {}

  /// Delivers every unit of the plan, and those that another process has once it has finished them. Ends early if told
  /// to stop or if the folder of partial results is gone.
  void run(const std::stop_token& stop) noexcept;

 private:
  enum class Outcome { delivered, claimed_elsewhere, end };

  /// False if the study has ended.
  bool deliver_all(const std::stop_token& stop);
  /// `origin`: who computed the unit if it turns out to be stored.
  Outcome deliver(const UnitKey& unit, UnitOrigin origin, const std::stop_token& stop);
  Delivery read(const UnitKey& unit, UnitClaim claim, std::unique_ptr<AttentionLayer> layer) const;

  const Study& study_;
  const StudyPlan& plan_;
  const std::span<const DumpReader> dumps_;
  const StreamOptions& options_;
  PartialResults& partial_;
  LayerHandover& handover_;
};

}  // namespace attest
