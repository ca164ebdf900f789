// Gives every call of a store a time limit: a server that was stopped, or whose machine is gone, would be waited for
// without end.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "analysis/ranks/job_store.h"

namespace attest {

/// Runs the calls of another store on a thread of its own. After a call that took too long, or failed, all calls throw;
/// a thread that hangs is left to the end of the process.
class TimedStore final : public JobStore {
 public:
  using Open = std::function<std::unique_ptr<JobStore>()>;

  /// `open` runs on that thread, too, and may take `open_limit`; what it throws is rethrown. `name`: "HOST:PORT". Once
  /// `stop`, which must outlive the store, is set, calls have a second or two.
  TimedStore(const Open& open, std::string name, std::chrono::milliseconds open_limit, std::chrono::milliseconds limit,
             const std::atomic<bool>* stop = nullptr);
  ~TimedStore() override;

  std::optional<std::string> get(const std::string& key) override;
  void set(const std::string& key, const std::string& value) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  bool replace(const std::string& key, const std::string& expected, const std::string& desired) override;
  void erase(const std::string& key) override;

 private:
  struct Shared;
  /// Throws StoreLost.
  void call(std::function<void(JobStore&)> action);
  [[noreturn]] void fail(const std::string& why) const;

  const std::string name_;
  const std::chrono::milliseconds limit_;
  const std::atomic<bool>* const stop_;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace attest
