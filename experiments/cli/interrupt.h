// Turns Ctrl-C into a flag, so that a study can end between two units of work.
#pragma once

#include <atomic>

namespace attest {

/// While it lives, the first SIGINT or SIGTERM sets the flag; the second one ends the process at once.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

  const std::atomic<bool>& flag() const;
};

}  // namespace attest
