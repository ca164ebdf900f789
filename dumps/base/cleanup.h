// What must be undone should a signal end the process.
#pragma once

#include <functional>
#include <list>
#include <mutex>

namespace attest {

/// While it lives, run_cleanups() calls `action`.
class Cleanup {
 public:
  explicit Cleanup(std::function<void()> action);
  /// First calls `make`, which makes what `action` removes and may throw. No signal ends the process between the two.
  Cleanup(const std::function<void()>& make, std::function<void()> action);
  /// Waits for ever once run_cleanups() was called: the process is about to end.
  ~Cleanup();
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;

 private:
  std::list<std::function<void()>>::iterator place_;
};

/// Calls the actions, the latest first, and lets no thread make or end a Cleanup from then on. For the thread that ends
/// the process.
void run_cleanups();

/// While the lock is held, run_cleanups() waits: for steps that must all be taken, or none.
std::unique_lock<std::mutex> delay_cleanups();

}  // namespace attest
