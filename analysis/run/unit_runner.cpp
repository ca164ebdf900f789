// The studying thread: submits layers, collects their results, and leaves out layers that cannot be studied.
#include "analysis/run/unit_runner.h"

#include <fmt/core.h>

#include <chrono>
#include <future>
#include <string>
#include <utility>

#include "dumps/base/error.h"

namespace attest {

void UnitRunner::run(const std::atomic<bool>* stop, const std::atomic<bool>& ended) {
  try {
    run_all(stop, ended);
  } catch (...) {
    report_what_is_stored();
    throw;
  }
}

void UnitRunner::store_all() {
  try {
    store_.drain();
    report_progress();
  } catch (...) {
    report_what_is_stored();
    throw;
  }
}

void UnitRunner::run_all(const std::atomic<bool>* stop, const std::atomic<bool>& ended) {
  for (;;) {
    if (stop != nullptr && *stop) {
      finish_all();
      throw Interrupted("interrupted");
    }
    if (ended) return finish_submitted();
    Delivery delivery;
    const LayerHandover::State state = handover_.receive(delivery);
    if (state == LayerHandover::State::delivered) {
      begin(std::move(delivery));
    } else if (state == LayerHandover::State::waiting) {
      finish_submitted();
    } else {
      return finish_submitted();
    }
    report_progress();
  }
}

void UnitRunner::begin(Delivery delivery) {
  if (!delivery.layer) return store_.put({delivery.unit, {}, delivery.origin});
  if (delivery.reading.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    if (const std::string defect = read_layer(delivery).defect; !defect.empty()) {
      if (!study_.skip_bad_layers) finish_submitted();  // the layers before it
      return leave_out(std::move(delivery), defect);
    }
  }
  study_layer([&] { layer_study_.submit(*delivery.layer); });
  submitted_.push_back(std::move(delivery));
  if (submitted_.size() == max_submitted_) finish_one();
}

void UnitRunner::finish_submitted() {
  while (!submitted_.empty()) finish_one();
}

void UnitRunner::finish_all() {
  finish_submitted();
  store_.drain();
  report_progress();
}

void UnitRunner::report_what_is_stored() noexcept {
  const auto quietly = [](auto&& step) {
    try {
      step();
    } catch (...) {  // the first error is the one to tell
    }
  };
  quietly([&] { store_.drain(); });
  quietly([&] { report_progress(); });
}

template <class Call>
void UnitRunner::study_layer(Call&& call) {
  try {
    call();
  } catch (const Interrupted&) {
    submitted_.clear();
    finish_all();
    throw;
  }
}

const ReadLayer& UnitRunner::read_layer(const Delivery& delivery) {
  const ReadLayer* read = nullptr;
  study_layer([&] { read = &delivery.reading.get(); });
  return *read;
}

void UnitRunner::leave_out(Delivery delivery, const std::string& what) {
  if (!study_.skip_bad_layers) {
    store_.drain();
    report_progress();
    throw InputError(what + "; " + tally_.bad_layer_advice());
  }
  tally_.notice(what + "; the layer is left out");
  LayerResults nothing;
  nothing.done = false;
  finish(std::move(delivery), std::move(nothing));
}

void UnitRunner::finish_one() {
  LayerResults results;
  study_layer([&] { results = layer_study_.collect(); });
  Delivery delivery = std::move(submitted_.front());
  submitted_.pop_front();
  const std::string defect = read_layer(delivery).defect;
  if (!defect.empty()) return leave_out(std::move(delivery), defect);
  if (results.defect.empty()) return finish(std::move(delivery), std::move(results));
  const StudyDump& dump = study_.dumps[delivery.unit.dump];
  const std::string& sample = dump.samples[delivery.unit.sample].name;
  leave_out(std::move(delivery), fmt::format("{}: sample '{}', {}", dump.path, sample, results.defect));
}

void UnitRunner::finish(Delivery delivery, LayerResults results) {
  results.dump = static_cast<int>(delivery.unit.dump);
  results.sample = study_.dumps[delivery.unit.dump].samples[delivery.unit.sample].name;
  results.layer = delivery.unit.layer;
  results.input_blocks = read_layer(delivery).blocks;
  handover_.give_back(std::move(delivery.layer));
  store_.put({delivery.unit, std::move(results)});
  report_progress();
}

}  // namespace attest
