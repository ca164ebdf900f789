// The units of a study that are still to be computed, shared by all that compute them: the GPUs of a process, several
// processes, or ranks.
#pragma once

#include <cstdint>
#include <memory>

#include "analysis/results/layer_results.h"
#include "analysis/study/study.h"

namespace attest {

/// Who computed a unit: this process, another one that runs beside it, or one that ended before this began.
enum class UnitOrigin : std::uint8_t { this_process, beside, before };

/// The right to compute a unit. The destructor gives the unit back, unless UnitQueue::finish() was called. A lease must
/// not outlive its queue.
class UnitLease {
 public:
  UnitLease() = default;
  virtual ~UnitLease() = default;
  UnitLease(const UnitLease&) = delete;
  UnitLease& operator=(const UnitLease&) = delete;
};

/// Thread-safe.
class UnitQueue {
 public:
  enum class State : std::uint8_t {
    compute,  ///< `lease` is the right to compute `unit`
    stored,   ///< `unit` was finished by `origin`; said once for each unit
    wait,     ///< all are taken, and some are not finished: they may come back
    end,      ///< nothing is left for the caller
  };
  struct Next {
    State state = State::end;
    UnitKey unit{};
    UnitOrigin origin = UnitOrigin::this_process;
    std::unique_ptr<UnitLease> lease{};
  };

  virtual ~UnitQueue() = default;

  virtual Next next() = 0;
  /// Stores the results of a unit. False, with the results dropped, if the lease was lost in the meantime. Throws
  /// OutputError if they cannot be stored.
  virtual bool finish(const UnitKey& unit, std::unique_ptr<UnitLease> lease, const LayerResults& results) = 0;
  /// A unit that is `stored`. Throws OutputError if it has become unreadable.
  virtual LayerResults load(const UnitKey& unit) const = 0;
};

}  // namespace attest
