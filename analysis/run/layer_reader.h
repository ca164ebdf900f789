// Takes the units of a study from a queue, reads their layers, and hands them over to the studying thread.
#pragma once

#include <atomic>
#include <span>
#include <stop_token>

#include "analysis/run/input_hashes.h"
#include "analysis/run/layer_handover.h"
#include "analysis/run/unit_queue.h"
#include "analysis/run/unit_store.h"
#include "analysis/study/head_weights.h"
#include "analysis/study/study.h"
#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"
#include "dumps/format/estimate_reader.h"

namespace attest {

struct StreamOptions {
  int reading_threads = 4;                      ///< for each LayerStudy
  int storing_threads = 1;                      ///< for each LayerStudy
  std::span<const EstimateReader> estimates{};  ///< for selectors whose estimates come from files
  const HeadWeights* weights = nullptr;         ///< of layers without head gradients
  bool hash_blocks = false;                     ///< LayerResults::input_blocks
  InputHashes* hashes = nullptr;                ///< of the dumps, in their order; gets the blocks that are hashed
  UnitSink sink{};                              ///< gets every unit of the queue, also those finished by others
  const std::atomic<bool>* stop = nullptr;      ///< set when the user interrupts
};

/// All references must outlive this object.
class LayerReader {
 public:
  LayerReader(const Study& study, const StudyPlan& plan, std::span<const DumpReader> dumps,
              const StreamOptions& options, UnitQueue& queue, LayerHandover& handover)
      : study_(study), plan_(plan), dumps_(dumps), options_(options), queue_(queue), handover_(handover) {}

  /// Delivers units until the queue has none. Ends early if told to stop.
  void run(const std::stop_token& stop) noexcept;

 private:
  void deliver_all(const std::stop_token& stop);
  Delivery read(const UnitKey& unit, std::unique_ptr<AttentionLayer> layer) const;

  const Study& study_;
  const StudyPlan& plan_;
  const std::span<const DumpReader> dumps_;
  const StreamOptions& options_;
  UnitQueue& queue_;
  LayerHandover& handover_;
};

}  // namespace attest
