// Reads layers on one thread, studies them on another, and stores their results on a third.
#include "analysis/run/stream_study.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "analysis/run/layer_handover.h"
#include "analysis/run/layer_reader.h"
#include "dumps/base/error.h"

namespace attest {
namespace {

/// Number of layers in memory at a time: those that the LayerStudy accepts plus one that is being read. Fewer, but at
/// least two, if they would take more than a quarter of the machine's memory.
int layers_at_once(const StudyPlan& plan, std::span<const DumpReader> dumps, const LayerStudy& study) {
  std::size_t largest = 1;
  for (const UnitKey& unit : plan.units) {
    const std::int64_t bytes =
        dumps[unit.dump].layer_info(plan.places[unit.dump][unit.sample].index, unit.layer).bytes();
    largest = std::max(largest, static_cast<std::size_t>(bytes));
  }
  const auto memory =
      static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
  const int wanted = study.most_submitted() + 1;
  return std::max(2, static_cast<int>(std::min<std::size_t>(memory / 4 / largest, static_cast<std::size_t>(wanted))));
}

/// Runs units through the LayerStudy and passes their results on to be stored.
class UnitRunner {
 public:
  UnitRunner(const Study& study, const StudyPlan& plan, LayerStudy& layer_study, const StudyObserver& observer,
             std::size_t most_submitted, LayerHandover& handover, UnitStore& store)
      : study_(study),
        layer_study_(layer_study),
        observer_(observer),
        most_submitted_(most_submitted),
        handover_(handover),
        store_(store) {
    progress_.total = plan.units.size();
  }

  void begin(Delivery delivery) {
    if (!delivery.layer) {
      ++progress_.resumed;
      return store_.put({delivery.unit, {}, {}, delivery.origin});
    }
    if (!delivery.defect.empty()) {
      if (!study_.skip_bad_layers) finish_submitted();  // the layers before it
      return leave_out(std::move(delivery));
    }
    study_layer([&] { layer_study_.submit(*delivery.layer); });
    submitted_.push_back(std::move(delivery));
    if (submitted_.size() == most_submitted_) finish_one();
  }

  /// Waits for the results of what was submitted.
  void finish_submitted() {
    while (!submitted_.empty()) finish_one();
  }
  /// The same, and waits until all results are stored.
  void finish_all() {
    finish_submitted();
    store_.drain();
    report_progress();
  }

  /// After an error: the caller decides by the number of finished units whether there is something to go on with.
  void report_what_is_stored() noexcept {
    try {
      store_.drain();
      report_progress();
    } catch (...) {  // the first error is the one to tell
    }
  }

  void report_progress() {
    for (std::size_t stored = store_.take_stored(); stored > 0; --stored) {
      ++progress_.finished;
      observer_.progress(progress_);
    }
  }

 private:
  /// Calls one of the functions of the LayerStudy. If it is interrupted, what was finished before is stored.
  template <class Call>
  void study_layer(Call&& call) {
    try {
      call();
    } catch (const Interrupted&) {
      submitted_.clear();
      finish_all();
      throw;
    }
  }

  /// The layers before it must be finished.
  void leave_out(Delivery delivery) {
    const std::string& what = delivery.defect;
    if (!study_.skip_bad_layers) {
      store_.drain();
      report_progress();
      throw InputError(what + "; " + observer_.bad_layer_advice);
    }
    observer_.notice(what + "; the layer is left out");
    LayerResults nothing;
    nothing.done = false;
    finish(std::move(delivery), std::move(nothing));
  }

  void finish_one() {
    LayerResults results;
    study_layer([&] { results = layer_study_.collect(); });
    Delivery delivery = std::move(submitted_.front());
    submitted_.pop_front();
    if (results.defect.empty()) return finish(std::move(delivery), std::move(results));
    const StudyDump& dump = study_.dumps[delivery.unit.dump];
    delivery.defect =
        fmt::format("{}: sample '{}', {}", dump.path, dump.samples[delivery.unit.sample].name, results.defect);
    leave_out(std::move(delivery));
  }

  void finish(Delivery delivery, LayerResults results) {
    results.dump = static_cast<int>(delivery.unit.dump);
    results.sample = study_.dumps[delivery.unit.dump].samples[delivery.unit.sample].name;
    results.layer = delivery.unit.layer;
    results.input_blocks = std::move(delivery.blocks);
    handover_.give_back(std::move(delivery.layer));
    store_.put({delivery.unit, std::move(delivery.claim), std::move(results)});
    report_progress();
  }

  const Study& study_;
  LayerStudy& layer_study_;
  const StudyObserver& observer_;
  const std::size_t most_submitted_;
  LayerHandover& handover_;
  UnitStore& store_;
  StudyProgress progress_;
  std::deque<Delivery> submitted_;
};

/// Runs every unit that the reader delivers.
void run_all(UnitRunner& runner, LayerHandover& handover, const std::atomic<bool>* stop) {
  for (;;) {
    if (stop != nullptr && *stop) {
      runner.finish_all();
      throw Interrupted("interrupted");
    }
    Delivery delivery;
    const LayerHandover::State state = handover.receive(delivery);
    if (state == LayerHandover::State::delivered) {
      runner.begin(std::move(delivery));
    } else if (state == LayerHandover::State::waiting) {
      runner.finish_submitted();
    } else {
      return runner.finish_all();
    }
    runner.report_progress();
  }
}

}  // namespace

void stream_study(const Study& study, const StudyPlan& plan, std::span<const DumpReader> dumps, LayerStudy& layer_study,
                  PartialResults& partial, const StreamOptions& options, const StudyObserver& observer) {
  observer.started(layer_study.device());
  const int layers = layers_at_once(plan, dumps, layer_study);
  LayerHandover handover(layers, layer_study.layer_memory());
  UnitStore store(partial, options.sink);
  UnitRunner runner(study, plan, layer_study, observer, static_cast<std::size_t>(layers - 1), handover, store);
  LayerReader reader(study, plan, dumps, options, partial, handover);
  const std::jthread reading([&](const std::stop_token& stop) { reader.run(stop); });

  try {
    run_all(runner, handover, options.stop);
  } catch (...) {
    runner.report_what_is_stored();
    throw;
  }
}

}  // namespace attest
