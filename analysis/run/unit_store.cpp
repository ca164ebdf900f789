// The queue of finished units and the thread that stores them.
#include "analysis/run/unit_store.h"

#include <utility>

namespace attest {
namespace {

/// One is stored, one waits, one is handed over. More would not help: storing is either faster than studying or not.
constexpr std::size_t kMostWaiting = 2;

}  // namespace

UnitStore::UnitStore(UnitQueue& queue, const UnitSink& sink) : queue_(queue), sink_(sink), thread_([this] { run(); }) {}

UnitStore::~UnitStore() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void UnitStore::rethrow() {
  if (error_) std::rethrow_exception(error_);
}

void UnitStore::put(FinishedUnit unit) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.size() < kMostWaiting || error_; });
  rethrow();
  waiting_.push_back(std::move(unit));
  changed_.notify_all();
}

std::size_t UnitStore::take_stored() {
  const std::lock_guard lock(mutex_);
  rethrow();
  return std::exchange(stored_, 0);
}

void UnitStore::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty() || error_; });
  rethrow();
}

bool UnitStore::store(FinishedUnit& finished) {
  if (finished.origin == UnitOrigin::this_process) {
    if (!queue_.finish(finished.unit, std::move(finished.lease), finished.results)) return false;
    if (sink_) sink_(finished.unit, finished.results, finished.origin);
  } else if (sink_) {
    sink_(finished.unit, queue_.load(finished.unit), finished.origin);
  }
  return true;
}

void UnitStore::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !waiting_.empty() || ended_; });
    if (waiting_.empty()) return;
    FinishedUnit& next = waiting_.front();  // a deque does not move it when others are added
    lock.unlock();
    std::exception_ptr error;
    bool counts = false;
    try {
      counts = store(next);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    waiting_.pop_front();
    if (error) {
      error_ = error;
      waiting_.clear();
      changed_.notify_all();
      return;
    }
    if (counts) ++stored_;
    changed_.notify_all();
  }
}

}  // namespace attest
