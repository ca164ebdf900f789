// Takes the units of a study from a queue, reads their layers, and hands them over to the studying thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/layer/layer_study.h"
#include "analysis/run/device_lock.h"
#include "analysis/run/input_hashes.h"
#include "analysis/run/layer_handover.h"
#include "analysis/run/unit_queue.h"
#include "analysis/run/unit_store.h"
#include "analysis/study/head_weights.h"
#include "analysis/study/study.h"
#include "analysis/study/study_plan.h"
#include "dumps/base/workers.h"
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
  /// Returns once the layer study at a place is there, and throws if its device cannot start; empty: all are there.
  std::function<void(std::size_t)> await_device{};
  /// Called by a pipeline when its LayerStudy has nothing left to compute, and all layer stores are gone; results may
  /// still be waiting to be stored.
  std::function<void(LayerStudy&)> computed{};
};

/// All references must outlive this object.
class LayerReader {
 public:
  /// The layer study rehearses the first layer that goes to a store; the thread that studies must not use it before a
  /// layer is delivered.
  LayerReader(const Study& study, LayerStudy& layer_study, const StudyPlan& plan, std::span<const DumpReader> dumps,
              const StreamOptions& options, UnitQueue& queue, DeviceLock& device, LayerHandover& handover)
      : study_(study),
        layer_study_(layer_study),
        plan_(plan),
        dumps_(dumps),
        options_(options),
        threads_(options.reading_threads),
        queue_(queue),
        device_(device),
        handover_(handover) {}

  /// Delivers units until the queue has none. Ends early if told to stop.
  void run(const std::stop_token& stop) noexcept;

 private:
  class Blocks;
  /// What a store looks at itself: values, and the whole ones of these blocks of the file.
  struct Inspection {
    bool checks = false, hashes = false;
    LayerBlocks blocks;
  };
  void deliver_all(const std::stop_token& stop);
  /// Reads a layer and delivers it: if it has a store with room, before its keys and values; if its store has none,
  /// without them, once they are known to be finite. False if the study has ended.
  bool read(const UnitKey& unit, std::unique_ptr<AttentionLayer> layer, const std::stop_token& stop);
  /// Begins to read the keys and values of a layer into its store, and delivers it. The layer's queries are finite.
  /// Returns when the last of them are being read, so that other threads begin the next layer while some are still at
  /// work.
  bool read_delivered(Delivery delivery, std::shared_ptr<Blocks> blocks, const std::stop_token& stop);
  /// Waits for the layer whose keys and values were begun last. Throws what reading them threw.
  void finish_reading();
  /// Asks a store to do so, if it can, where keys and values are read for the first and only time.
  Inspection begin_inspection(const UnitKey& unit, LayerStore& store) const;
  /// Reads its keys and values, and tells when they are there. What the store inspects is not looked at.
  ReadLayer read_into_store(const UnitKey& unit, LayerStore& store, bool finite_queries, const Inspection& there,
                            Blocks& blocks) const;
  /// The blocks that a store which hashes does not have as a whole.
  void hash_cut_blocks(const UnitKey& unit, const Inspection& there) const;
  /// What is known with the findings of a store. Whoever asks first waits for them.
  std::shared_future<ReadLayer> with_findings(const UnitKey& unit, std::shared_ptr<LayerStore> store,
                                              const Inspection& there, std::shared_future<ReadLayer> reading) const;
  /// Of a layer that held NaN or infinity: reads it once more, into host memory, to name the place.
  std::string find_bad_value(const UnitKey& unit, const BlockObserver& observe = {}) const;
  /// What belongs to a layer beside its tensors, and only the rows of the chosen queries.
  void complete(const UnitKey& unit, AttentionLayer& layer) const;
  /// Names the first value of a layer in host memory that is not finite, among the chosen queries; empty if there is
  /// none.
  std::string bad_value(const UnitKey& unit, const AttentionLayer& layer) const;
  enum class Place : std::uint8_t { host_memory, store, source };
  /// Where the keys and values of the layer are to be.
  Place place_for(const UnitKey& unit, AttentionLayer& layer) const;
  void begin_arrival(const UnitKey& unit, LayerStore& store) const;

  const Study& study_;
  LayerStudy& layer_study_;
  const StudyPlan& plan_;
  const std::span<const DumpReader> dumps_;
  const StreamOptions& options_;
  const Workers threads_;
  UnitQueue& queue_;
  DeviceLock& device_;
  LayerHandover& handover_;
  bool delivered_any_ = false;
  std::future<void> reading_;  ///< last member: what it runs uses the others
};

}  // namespace attest
