// Helpers take rounds of work, one round for each call, in the order of the calls.
#include "dumps/base/workers.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <thread>
#include <vector>

namespace attest {

class Workers::Helpers {
 public:
  /// At most so many.
  explicit Helpers(int maximum) : maximum_(maximum) {}
  ~Helpers() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// Calls work(0) on this thread, and work(1) .. work(helpers) on those that are free before it has returned.
  void run(int helpers, const std::function<void(int)>& work) {
    std::unique_lock lock(mutex_);
    int wanted = helpers;
    for (const Round& round : rounds_) wanted += round.joined;
    while (static_cast<int>(threads_.size()) < std::min(wanted, maximum_)) threads_.emplace_back([this] { serve(); });
    const auto round = rounds_.insert(rounds_.end(), {.number = ++begun_, .work = &work, .helpers = helpers});
    changed_.notify_all();
    lock.unlock();
    work(0);
    lock.lock();
    round->helpers = 0;
    idle_.wait(lock, [&] { return round->active == 0; });
    rounds_.erase(round);
  }

 private:
  struct Round {
    std::size_t number;
    const std::function<void(int)>* work;
    int helpers;
    int joined = 0, active = 0;
  };

  void serve() {
    std::unique_lock lock(mutex_);
    for (std::size_t done = 0;;) {
      auto round = rounds_.end();
      changed_.wait(lock, [&] {
        round = std::ranges::find_if(rounds_, [&](const Round& r) { return r.number > done && r.joined < r.helpers; });
        return ended_ || round != rounds_.end();
      });
      if (ended_) return;
      done = round->number;
      const int own = ++round->joined;
      ++round->active;
      lock.unlock();
      (*round->work)(own);
      lock.lock();
      if (--round->active == 0) idle_.notify_all();
    }
  }

  const int maximum_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_, idle_;
  std::list<Round> rounds_;  ///< of the calls that have not returned
  std::size_t begun_ = 0;
  bool ended_ = false;
};

Workers::Workers(int threads) : threads_(threads), helpers_(std::make_unique<Helpers>(threads - 1)) {}

Workers::~Workers() = default;

void Workers::together(std::size_t maximum, const std::function<void(int)>& work) const {
  const int helpers = static_cast<int>(std::min(maximum, static_cast<std::size_t>(std::max(threads_, 1)))) - 1;
  if (helpers <= 0) return work(0);
  helpers_->run(helpers, work);
}

}  // namespace attest
