// Helpers wait for the next round of work.
#include "dumps/base/workers.h"

#include <algorithm>
#include <condition_variable>
#include <thread>
#include <vector>

namespace attest {

class Workers::Helpers {
 public:
  ~Helpers() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// Starts threads until there are `count`.
  void start(int count) {
    while (static_cast<int>(threads_.size()) < count)
      threads_.emplace_back([this, own = static_cast<int>(threads_.size()), after = round_] { serve(own, after); });
  }

  /// The first `count` helpers, which exist, begin work(1) .. work(count).
  void begin(int count, const std::function<void(int)>& work) {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    wanted_ = busy_ = count;
    ++round_;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  /// `done`: the round that was begun last when the thread was made.
  void serve(int own, std::size_t done) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ended_ || (round_ != done && own < wanted_); });
      if (ended_) return;
      done = round_;
      const std::function<void(int)>& work = *work_;
      lock.unlock();
      work(own + 1);
      lock.lock();
      if (--busy_ == 0) idle_.notify_one();
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_, idle_;
  const std::function<void(int)>* work_ = nullptr;
  int wanted_ = 0, busy_ = 0;
  std::size_t round_ = 0;
  bool ended_ = false;
};

Workers::Workers(int threads) : threads_(threads), helpers_(std::make_unique<Helpers>()) {}

Workers::~Workers() = default;

void Workers::together(std::size_t maximum, const std::function<void(int)>& work) const {
  const int helpers = static_cast<int>(std::min(maximum, static_cast<std::size_t>(std::max(threads_, 1)))) - 1;
  if (helpers <= 0) return work(0);
  helpers_->start(helpers);
  helpers_->begin(helpers, work);
  work(0);
  helpers_->wait();
}

}  // namespace attest
