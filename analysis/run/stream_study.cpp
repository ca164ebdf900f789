#include "analysis/run/stream_study.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "dumps/base/error.h"
#include "dumps/format/value_check.h"

namespace attest {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(100);

/// A unit on its way from the reader to the study; without a layer it was found finished.
struct Delivery {
  UnitKey unit;
  UnitClaim claim;
  std::unique_ptr<AttentionLayer> layer;
  std::string defect;  ///< why the layer cannot be studied, in a sentence; empty: it can
};

/// Layers in memory at a time: those that can be under study and one that is read, or as few as two where a quarter of
/// the machine's memory does not hold more of the largest.
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

/// Hands units from the reading thread to the studying one.
class Handover {
 public:
  Handover(int num_layers, std::pmr::memory_resource* memory) {
    for (int i = 0; i < num_layers; ++i) free_.push_back(std::make_unique<AttentionLayer>(memory));
  }

  // -- reading thread

  /// Empty when the study has ended.
  std::unique_ptr<AttentionLayer> take_free(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this] { return !free_.empty(); })) return nullptr;
    std::unique_ptr<AttentionLayer> layer = std::move(free_.back());
    free_.pop_back();
    return layer;
  }
  void give_back(std::unique_ptr<AttentionLayer> layer) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(layer));
    changed_.notify_all();
  }
  void deliver(Delivery delivery) {
    const std::lock_guard lock(mutex_);
    ready_.push_back(std::move(delivery));
    changed_.notify_all();
  }
  void finish(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    error_ = error;
    finished_ = true;
    changed_.notify_all();
  }
  /// Returns early when the study ends.
  void pause(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, kPollInterval, [] { return false; });
  }

  // -- studying thread

  enum class State { delivered, waiting, finished };

  /// Waits for at most kPollInterval; throws what the reading thread threw, after everything that it delivered before.
  State receive(Delivery& delivery) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPollInterval, [this] { return !ready_.empty() || finished_; });
    if (!ready_.empty()) {
      delivery = std::move(ready_.front());
      ready_.pop_front();
      return State::delivered;
    }
    if (error_) std::rethrow_exception(error_);
    return finished_ ? State::finished : State::waiting;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::unique_ptr<AttentionLayer>> free_;
  std::deque<Delivery> ready_;
  std::exception_ptr error_;
  bool finished_ = false;
};

class Reader {
 public:
  Reader(const StudyPlan& plan, std::span<const DumpReader> dumps, PartialResults& partial,
         const StreamOptions& options, Handover& handover)
      : plan_(plan), dumps_(dumps), partial_(partial), options_(options), handover_(handover) {}

  void run(const std::stop_token& stop) noexcept {
    try {
      std::vector<UnitKey> left = plan_.units;
      while (!left.empty()) {
        std::vector<UnitKey> claimed_elsewhere;
        for (const UnitKey& unit : left) {
          const Outcome outcome = bring(unit, stop);
          if (outcome == Outcome::end) return handover_.finish(nullptr);
          if (outcome == Outcome::claimed_elsewhere) claimed_elsewhere.push_back(unit);
        }
        left = std::move(claimed_elsewhere);
        if (!left.empty()) handover_.pause(stop);
      }
      handover_.finish(nullptr);
    } catch (...) {
      handover_.finish(std::current_exception());
    }
  }

 private:
  enum class Outcome { delivered, claimed_elsewhere, end };

  Outcome bring(const UnitKey& unit, const std::stop_token& stop) {
    std::unique_ptr<AttentionLayer> layer = handover_.take_free(stop);
    if (!layer) return Outcome::end;
    std::optional<UnitClaim> claim = partial_.claim(unit);
    if (!claim || partial_.load(unit)) {
      handover_.give_back(std::move(layer));
      if (!claim) return Outcome::claimed_elsewhere;
      handover_.deliver({unit, {}, nullptr, {}});
      return Outcome::delivered;
    }
    if (!partial_.in_place()) return Outcome::end;
    const PlannedSample& place = plan_.places[unit.dump][unit.sample];
    const DumpReader& dump = dumps_[unit.dump];
    const std::string& sample = dump.info().samples[place.index].name;
    const bool finite = dump.read_layer(place.index, unit.layer, *layer, options_.reading_threads);
    while (layer->estimates.size() < options_.estimates.size()) layer->estimates.emplace_back(layer->q.memory());
    for (std::size_t i = 0; i < options_.estimates.size(); ++i)
      options_.estimates[i].read(sample, unit.layer, layer->estimates[i]);
    select_queries(*layer, place.query_indices);
    std::string defect = finite ? std::string() : first_bad_value(check_values(*layer));  // none if in a query left out
    if (!defect.empty()) defect = fmt::format("{}: sample '{}', {}", dump.info().path, sample, defect);
    if (defect.empty()) defect = first_bad_estimate(*layer, sample);
    handover_.deliver({unit, std::move(*claim), std::move(layer), std::move(defect)});
    return Outcome::delivered;
  }

  const StudyPlan& plan_;
  std::span<const DumpReader> dumps_;
  PartialResults& partial_;
  const StreamOptions& options_;
  Handover& handover_;
};

/// Takes units through the LayerStudy into the partial results.
class Studying {
 public:
  Studying(const Study& study, const StudyPlan& plan, LayerStudy& layer_study, PartialResults& partial,
           const StudyObserver& observer, std::size_t most_submitted, Handover& handover)
      : study_(study),
        layer_study_(layer_study),
        partial_(partial),
        observer_(observer),
        most_submitted_(most_submitted),
        handover_(handover) {
    progress_.total = plan.units.size();
  }

  void begin(Delivery delivery) {
    if (!delivery.layer) {
      ++progress_.resumed;
      return count();
    }
    if (!delivery.defect.empty()) {
      const std::string& what = delivery.defect;
      if (!study_.skip_bad_layers) {
        finish_all();  // what came before is not lost
        throw InputError(what + "; --skip-bad-layers studies the other layers without it");
      }
      observer_.notice(what + "; the layer is left out");
      LayerResults nothing;
      nothing.done = false;
      return store(std::move(delivery), std::move(nothing));
    }
    layer_study_.submit(*delivery.layer);
    submitted_.push_back(std::move(delivery));
    if (submitted_.size() == most_submitted_) finish_one();
  }

  void finish_all() {
    while (!submitted_.empty()) finish_one();
  }

 private:
  void finish_one() {
    LayerResults results = layer_study_.collect();
    Delivery delivery = std::move(submitted_.front());
    submitted_.pop_front();
    store(std::move(delivery), std::move(results));
  }

  void store(Delivery delivery, LayerResults results) {
    results.dump = static_cast<int>(delivery.unit.dump);
    results.sample = sample_of(delivery.unit).name;
    results.layer = delivery.unit.layer;
    handover_.give_back(std::move(delivery.layer));
    partial_.store(delivery.unit, results);
    count();
  }

  void count() {
    ++progress_.finished;
    observer_.progress(progress_);
  }

  const StudyDump& dump_of(const UnitKey& unit) const { return study_.dumps[unit.dump]; }
  const StudySample& sample_of(const UnitKey& unit) const { return dump_of(unit).samples[unit.sample]; }

  const Study& study_;
  LayerStudy& layer_study_;
  PartialResults& partial_;
  const StudyObserver& observer_;
  const std::size_t most_submitted_;
  Handover& handover_;
  StudyProgress progress_;
  std::deque<Delivery> submitted_;
};

}  // namespace

void stream_study(const Study& study, const StudyPlan& plan, std::span<const DumpReader> dumps, LayerStudy& layer_study,
                  PartialResults& partial, const StreamOptions& options, const StudyObserver& observer) {
  observer.started(layer_study.device());
  const int layers = layers_at_once(plan, dumps, layer_study);
  Handover handover(layers, layer_study.layer_memory());
  Studying studying(study, plan, layer_study, partial, observer, static_cast<std::size_t>(layers - 1), handover);
  Reader reader(plan, dumps, partial, options, handover);
  const std::jthread reading([&](const std::stop_token& stop) { reader.run(stop); });

  for (;;) {
    if (options.stop != nullptr && *options.stop) {
      studying.finish_all();
      throw Interrupted("interrupted");
    }
    Delivery delivery;
    const Handover::State state = handover.receive(delivery);
    if (state == Handover::State::delivered) {
      studying.begin(std::move(delivery));
    } else {
      studying.finish_all();
      if (state == Handover::State::finished) return;
    }
  }
}

}  // namespace attest
