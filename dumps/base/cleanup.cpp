// The list of cleanup actions and its lock.
#include "dumps/base/cleanup.h"

#include <utility>

namespace attest {
namespace {

struct Registry {
  std::mutex mutex;
  std::list<std::function<void()>> actions;
};

/// Never destroyed: the thread that ends the process may use it while main returns.
Registry& registry() {
  static Registry& only = *new Registry;
  return only;
}

}  // namespace

Cleanup::Cleanup(std::function<void()> action) : Cleanup([] {}, std::move(action)) {}

Cleanup::Cleanup(const std::function<void()>& make, std::function<void()> action) {
  const std::lock_guard lock(registry().mutex);
  make();
  place_ = registry().actions.insert(registry().actions.begin(), std::move(action));
}

Cleanup::~Cleanup() {
  const std::lock_guard lock(registry().mutex);
  registry().actions.erase(place_);
}

void run_cleanups() {
  registry().mutex.lock();  // for ever
  for (const std::function<void()>& action : registry().actions) action();
}

std::unique_lock<std::mutex> delay_cleanups() { return std::unique_lock(registry().mutex); }

}  // namespace attest
