// Runs units through a LayerStudy and passes their results on to be stored.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <string>

#include "analysis/layer/layer_study.h"
#include "analysis/run/layer_handover.h"
#include "analysis/run/study_tally.h"
#include "analysis/run/unit_store.h"
#include "analysis/study/study.h"

namespace attest {

/// Used by one thread. All references must outlive this object.
class UnitRunner {
 public:
  UnitRunner(const Study& study, LayerStudy& layer_study, std::size_t max_submitted, LayerHandover& handover,
             UnitStore& store, StudyTally& tally)
      : study_(study),
        layer_study_(layer_study),
        max_submitted_(max_submitted),
        handover_(handover),
        store_(store),
        tally_(tally) {}

  /// Runs every unit that is handed over. Throws InputError for a layer that cannot be studied, Interrupted if `stop`
  /// is set. Returns early, with what it has begun finished, if `ended` is set: another runner has failed. After an
  /// error what is finished is stored, too.
  void run(const std::atomic<bool>* stop, const std::atomic<bool>& ended);
  /// After run(): waits until the results of all are stored. Uses neither the LayerStudy nor the handover.
  void store_all();

 private:
  void run_all(const std::atomic<bool>* stop, const std::atomic<bool>& ended);
  void begin(Delivery delivery);
  /// Waits for the results of what was submitted.
  void finish_submitted();
  /// The same, and waits until all results are stored.
  void finish_all();
  /// After an error: the caller decides by the number of finished units whether there is something to go on with.
  void report_what_is_stored() noexcept;
  void report_progress() {
    const UnitStore::Counts counts = store_.take_stored();
    tally_.add_finished(counts.stored, counts.resumed, counts.beside);
  }
  /// Calls one of the functions of the LayerStudy. If it is interrupted, what was finished before is stored.
  template <class Call>
  void study_layer(Call&& call);
  /// Waits until the layer has been read as a whole.
  const ReadLayer& read_layer(const Delivery& delivery);
  /// `what` is wrong with it. The layers before it must be finished.
  void leave_out(Delivery delivery, const std::string& what);
  void finish_one();
  void finish(Delivery delivery, LayerResults results);

  const Study& study_;
  LayerStudy& layer_study_;
  const std::size_t max_submitted_;
  LayerHandover& handover_;
  UnitStore& store_;
  StudyTally& tally_;
  std::deque<Delivery> submitted_;
};

}  // namespace attest
