// Leases of units by file locks.
#include "analysis/run/locked_unit_queue.h"

#include <utility>

namespace attest {
namespace {

struct LockLease final : UnitLease {
  explicit LockLease(UnitClaim held) : claim(std::move(held)) {}
  UnitClaim claim;
};

}  // namespace

LockedUnitQueue::LockedUnitQueue(PartialResults& partial, const StudyPlan& plan, bool skip_bad_layers)
    : partial_(partial),
      plan_(plan),
      skip_bad_layers_(skip_bad_layers),
      before_(PartialResults::unit_files(partial.folder())) {}

std::optional<UnitQueue::Next> LockedUnitQueue::take(const UnitKey& unit, UnitOrigin origin) {
  std::optional<UnitClaim> claim = partial_.claim(unit);
  if (!claim) return std::nullopt;
  const UnitState state = partial_.state(unit);
  if (state == UnitState::computed || (state == UnitState::left_out && skip_bad_layers_))
    return Next{.state = State::stored, .unit = unit, .origin = origin};
  if (!partial_.in_place()) return Next{.state = State::end};  // another process has finished the study
  return Next{.state = State::compute, .unit = unit, .lease = std::make_unique<LockLease>(std::move(*claim))};
}

UnitQueue::Next LockedUnitQueue::next() {
  for (;;) {
    UnitKey unit;
    bool in_plan = false;
    {
      const std::lock_guard lock(mutex_);
      in_plan = next_ < plan_.units.size() && !(others_first_ && !others_.empty());
      if (!in_plan && others_.empty()) return {.state = State::end};
      others_first_ = in_plan;
      if (in_plan) {
        unit = plan_.units[next_++];
      } else {
        unit = others_.front();
        others_.pop_front();
      }
    }
    const bool before = in_plan && before_.contains(unit);
    if (std::optional<Next> taken = take(unit, before ? UnitOrigin::before : UnitOrigin::beside))
      return std::move(*taken);
    const std::lock_guard lock(mutex_);
    // To the back: the oldest may be in the hands of a slow process that dies later.
    others_.push_back(unit);
    if (next_ == plan_.units.size()) return {.state = State::wait};
  }
}

bool LockedUnitQueue::finish(const UnitKey& unit, std::unique_ptr<UnitLease> lease, const LayerResults& results) {
  partial_.store(unit, results);
  lease.reset();
  return true;
}

}  // namespace attest
