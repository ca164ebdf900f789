// The queue of finished units and the threads that store them.
#include "analysis/run/unit_store.h"

#include <optional>
#include <utility>

namespace attest {

UnitStore::UnitStore(UnitQueue& queue, const UnitSink& sink, int threads)
    : queue_(queue), sink_(sink), max_held_(static_cast<std::size_t>(threads) + 1) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
}

void UnitStore::rethrow() {
  if (error_) std::rethrow_exception(error_);
}

void UnitStore::put(FinishedUnit unit) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.size() + storing_ < max_held_ || error_; });
  rethrow();
  waiting_.push_back(std::move(unit));
  changed_.notify_all();
}

UnitStore::Counts UnitStore::take_stored() {
  const std::lock_guard lock(mutex_);
  const Counts counts = std::exchange(counts_, {});
  if (counts.stored == 0) rethrow();  // what was stored before an error counts
  return counts;
}

void UnitStore::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return idle() || error_; });
  rethrow();
}

bool UnitStore::store(FinishedUnit& finished) {
  if (finished.origin == UnitOrigin::this_process) {
    queue_.finish(finished.unit, finished.results);
  } else if (std::optional<LayerResults> found = queue_.load(finished.unit)) {
    finished.results = std::move(*found);
  } else {
    return false;
  }
  if (sink_) sink_(finished.unit, finished.results, finished.origin);
  return true;
}

void UnitStore::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) return;
    std::exception_ptr error;
    bool counts = false;
    UnitOrigin origin = UnitOrigin::this_process;
    {
      FinishedUnit next = std::move(waiting_.front());
      waiting_.pop_front();
      origin = next.origin;
      ++storing_;
      lock.unlock();
      try {
        counts = store(next);
      } catch (...) {
        error = std::current_exception();
      }
    }
    lock.lock();
    --storing_;
    if (counts) ++counts_.stored;
    if (counts && origin == UnitOrigin::before) ++counts_.resumed;
    if (counts && origin == UnitOrigin::beside) ++counts_.beside;
    if (error && !error_) error_ = error;
    if (error_) waiting_.clear();
    changed_.notify_all();
  }
}

}  // namespace attest
