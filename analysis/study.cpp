#include "analysis/study.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "dumps/all_finite.h"
#include "dumps/error.h"
#include "dumps/value_check.h"

namespace attest {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(100);

/// A unit on its way from the reader to the study; without a layer it was found finished.
struct Delivery {
  UnitKey unit;
  UnitClaim claim;
  std::unique_ptr<AttentionLayer> layer;
  std::string defect;  ///< why the layer cannot be studied; empty: it can
};

/// Hands units from the reading thread to the studying one. Two layers exist: one is studied, one is read.
class Handover {
 public:
  Handover() {
    free_.push_back(std::make_unique<AttentionLayer>());
    free_.push_back(std::make_unique<AttentionLayer>());
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
  Reader(const StudyPlan& plan, std::span<const DumpReader> dumps, PartialResults& partial, Handover& handover)
      : plan_(plan), dumps_(dumps), partial_(partial), handover_(handover) {}

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
    dumps_[unit.dump].read_layer(place.index, unit.layer, *layer);
    select_queries(*layer, place.query_indices);
    std::string defect = all_finite(*layer) ? std::string() : first_bad_value(check_values(*layer));
    handover_.deliver({unit, std::move(*claim), std::move(layer), std::move(defect)});
    return Outcome::delivered;
  }

  const StudyPlan& plan_;
  std::span<const DumpReader> dumps_;
  PartialResults& partial_;
  Handover& handover_;
};

}  // namespace

void run_study(const StudyPlan& plan, std::span<const DumpReader> dumps, LayerStudy& layer_study,
               PartialResults& partial, const StudyRunOptions& options, const StudyObserver& observer) {
  observer.started(layer_study.device());
  Handover handover;
  Reader reader(plan, dumps, partial, handover);
  const std::jthread reading([&](const std::stop_token& stop) { reader.run(stop); });

  StudyProgress progress{.finished = 0, .resumed = 0, .total = plan.units.size()};
  for (;;) {
    if (options.stop != nullptr && *options.stop) throw Interrupted("interrupted");
    Delivery delivery;
    const Handover::State state = handover.receive(delivery);
    if (state == Handover::State::finished) return;
    if (state == Handover::State::waiting) continue;

    const UnitKey& unit = delivery.unit;
    if (delivery.layer) {
      const StudyDump& dump = plan.dumps[unit.dump];
      const StudySample& sample = dump.samples[unit.sample];
      LayerResults results;
      if (delivery.defect.empty()) {
        results = layer_study.run(*delivery.layer);
      } else {
        const std::string what =
            fmt::format("{}: sample '{}', {}", dump.path, sample.name, delivery.defect);
        if (!options.skip_bad_layers)
          throw InputError(what + "; --skip-bad-layers studies the other layers without it");
        observer.notice(what + "; the layer is left out");
        results.done = false;
      }
      results.dump = static_cast<int>(unit.dump);
      results.sample = sample.name;
      results.layer = unit.layer;
      partial.store(unit, results);
      handover.give_back(std::move(delivery.layer));
    } else {
      ++progress.resumed;
    }
    ++progress.finished;
    observer.progress(progress);
  }
}

}  // namespace attest
