// Locks units in the folder, and remembers which of them other processes have.
#include "analysis/run/unit_queue.h"

#include <fmt/core.h>

#include <utility>

namespace attest {

UnitQueue::UnitQueue(PartialResults& partial, const StudyPlan& plan, bool skip_bad_layers, Notice notice, Files files)
    : partial_(partial),
      plan_(plan),
      skip_bad_layers_(skip_bad_layers),
      notice_(std::move(notice)),
      files_(files),
      before_(PartialResults::unit_files(partial.folder())) {}

/// The next unit to ask for, alternately of the plan and of those that others had.
std::optional<UnitQueue::Place> UnitQueue::take_place() {
  const std::lock_guard lock(mutex_);
  const bool in_plan = next_ < plan_.units.size() && !(others_first_ && !others_.empty());
  others_first_ = in_plan;
  if (in_plan) {
    const UnitKey unit = plan_.units[next_++];
    ++in_hand_;
    return Place{.unit = unit, .origin = before_.contains(unit) ? UnitOrigin::before : UnitOrigin::beside};
  }
  if (others_.empty()) return std::nullopt;
  const Place place = others_.front();
  others_.pop_front();
  ++in_hand_;
  return place;
}

std::optional<UnitQueue::Next> UnitQueue::take(const Place& place, bool may_compute) {
  const auto stored = [&] {
    const std::lock_guard lock(mutex_);
    ++to_load_;
    return Next{.state = State::stored, .unit = place.unit, .origin = place.origin};
  };
  if (!place.unreadable && partial_.has_file(place.unit)) return stored();
  if (!partial_.in_place()) return Next{.state = State::end};  // another process has finished the study
  if (!may_compute || !partial_.try_lock(place.unit)) return std::nullopt;
  // The process that had the lock may have finished the unit just now.
  const UnitState state = partial_.state(place.unit);
  if (state == UnitState::missing || (state == UnitState::left_out && !skip_bad_layers_))
    return Next{.state = State::compute, .unit = place.unit};
  partial_.unlock(place.unit);
  return stored();
}

UnitQueue::Next UnitQueue::next(bool may_compute) {
  for (;;) {
    const std::optional<Place> place = take_place();
    if (!place) {
      const std::lock_guard lock(mutex_);
      return {.state = to_load_ > 0 || in_hand_ > 0 || !others_.empty() ? State::wait : State::end};
    }
    std::optional<Next> taken;
    try {
      taken = take(*place, may_compute);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      --in_hand_;
      others_.push_back(*place);
      throw;
    }
    const std::lock_guard lock(mutex_);
    --in_hand_;
    if (taken) {
      patience_.reset();
      return *taken;
    }
    // To the back: the oldest may be in the hands of a slow process that dies later.
    others_.push_back(*place);
    if (may_compute && next_ < plan_.units.size()) continue;
    if (may_compute) tell_for_whom(place->unit);
    return {.state = State::wait};
  }
}

void UnitQueue::tell_for_whom(const UnitKey& unit) {
  const std::string holder = patience_.whom_to_name([&] { return partial_.holder(unit); });
  if (holder.empty() || !notice_) return;
  notice_(fmt::format("waiting for {}, which computes layer {} of sample {}; {} in all are with other processes",
                      holder, unit.layer, unit.sample + 1, others_.size()));
}

DeviceLock UnitQueue::device_lock(const std::string& identity, const std::string& device) const {
  // Without files nobody could take over what another process finishes.
  return {partial_, files_ == Files::written ? identity : "", device, notice_};
}

void UnitQueue::finish(const UnitKey& unit, LayerResults& results) {
  results.computed_by = partial_.self();
  if (files_ == Files::written) partial_.store(unit, results);
  partial_.unlock(unit);
}

std::optional<LayerResults> UnitQueue::load(const UnitKey& unit) {
  std::optional<LayerResults> results = partial_.load(unit);
  if (results && !results->done && !skip_bad_layers_) results.reset();
  const std::lock_guard lock(mutex_);
  --to_load_;
  if (!results) others_.push_back({.unit = unit, .origin = UnitOrigin::beside, .unreadable = true});
  return results;
}

}  // namespace attest
