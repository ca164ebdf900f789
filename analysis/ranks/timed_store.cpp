// The thread that calls the store, and those that wait for it.
#include "analysis/ranks/timed_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace attest {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSlice{100}, kMostAfterStop{1500};

}  // namespace

/// Outlives the TimedStore if its thread hangs in a call.
struct TimedStore::Shared {
  struct Call {
    std::function<void(JobStore&)> action;
    std::exception_ptr error{};
    bool done = false;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Call>> waiting;
  bool open = false, ended = false;
  bool hangs = false;  ///< a call took too long
  std::exception_ptr open_error;
  std::string broken;  ///< why no further calls are made; empty: they are

  static void run(const std::shared_ptr<Shared>& shared, const Open& open_store) {
    std::unique_ptr<JobStore> store;
    try {
      store = open_store();
    } catch (...) {
      const std::lock_guard lock(shared->mutex);
      shared->open_error = std::current_exception();
      shared->ended = true;
    }
    std::unique_lock lock(shared->mutex);
    shared->open = store != nullptr;
    shared->changed.notify_all();
    for (;;) {
      shared->changed.wait(lock, [&] { return shared->ended || !shared->waiting.empty(); });
      if (shared->ended) return;
      const std::shared_ptr<Call> next = shared->waiting.front();
      shared->waiting.pop_front();
      lock.unlock();
      try {
        next->action(*store);
      } catch (...) {
        next->error = std::current_exception();
      }
      lock.lock();
      next->done = true;
      shared->changed.notify_all();
    }
  }
};

TimedStore::TimedStore(const Open& open, std::string name, std::chrono::milliseconds open_limit,
                       std::chrono::milliseconds limit, const std::atomic<bool>* stop)
    : name_(std::move(name)), limit_(limit), stop_(stop), shared_(std::make_shared<Shared>()) {
  thread_ = std::thread([shared = shared_, open] { Shared::run(shared, open); });
  std::unique_lock lock(shared_->mutex);
  if (!shared_->changed.wait_for(lock, open_limit, [&] { return shared_->open || shared_->ended; })) {
    shared_->ended = true;
    thread_.detach();
    throw StoreLost(fmt::format("{} does not answer", name_));
  }
  if (!shared_->open_error) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(shared_->open_error);
}

TimedStore::~TimedStore() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ended = true;
    shared_->changed.notify_all();
  }
  if (shared_->hangs)
    thread_.detach();
  else
    thread_.join();
}

void TimedStore::fail(const std::string& why) const {
  throw StoreLost(fmt::format(
      "the store at {} is gone ({}); finished layers are kept, the same command with --resume goes on", name_, why));
}

void TimedStore::call(std::function<void(JobStore&)> action) {
  const auto own = std::make_shared<Shared::Call>(Shared::Call{.action = std::move(action)});
  std::unique_lock lock(shared_->mutex);
  if (!shared_->broken.empty()) fail(shared_->broken);
  shared_->waiting.push_back(own);
  shared_->changed.notify_all();
  const auto ended = [&] { return own->done || !shared_->broken.empty(); };
  // In slices, and these are counted: time in which this process was stopped itself is one slice.
  bool in_time = false;
  milliseconds waited{0}, after_stop{0};
  while (!in_time && waited < limit_ && after_stop < kMostAfterStop) {
    const milliseconds slice = std::min(kSlice, limit_ - waited);
    in_time = shared_->changed.wait_for(lock, slice, ended);
    waited += slice;
    if (stop_ != nullptr && *stop_) after_stop += slice;
  }
  if (own->done && !own->error) return;
  if (shared_->broken.empty()) {
    shared_->broken = fmt::format("no answer within {:.3g} s", std::chrono::duration<double>(waited).count());
    shared_->hangs = !in_time;
    if (in_time) try {
        std::rethrow_exception(own->error);
      } catch (const std::exception& error) {
        shared_->broken = error.what();
      }
    shared_->ended = true;
    shared_->changed.notify_all();
  }
  fail(shared_->broken);
}

std::optional<std::string> TimedStore::get(const std::string& key) {
  const auto found = std::make_shared<std::optional<std::string>>();
  call([=](JobStore& store) { *found = store.get(key); });
  return std::move(*found);
}

void TimedStore::set(const std::string& key, const std::string& value) {
  call([=](JobStore& store) { store.set(key, value); });
}

std::int64_t TimedStore::add(const std::string& key, std::int64_t amount) {
  const auto sum = std::make_shared<std::int64_t>();
  call([=](JobStore& store) { *sum = store.add(key, amount); });
  return *sum;
}

bool TimedStore::replace(const std::string& key, const std::string& expected, const std::string& desired) {
  const auto replaced = std::make_shared<bool>();
  call([=](JobStore& store) { *replaced = store.replace(key, expected, desired); });
  return *replaced;
}

void TimedStore::erase(const std::string& key) {
  call([=](JobStore& store) { store.erase(key); });
}

}  // namespace attest
