// Opens a TCPStore through the LibTorch module.
#include <fmt/format.h>

#include <cstdlib>
#include <thread>

#include "analysis/ranks/timed_store.h"
#include "analysis/torch/module_loader.h"
#include "analysis/torch/torch_store.h"
#include "dumps/base/error.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Entry = JobStore* (*)(const TorchStoreAddress*, std::int64_t, std::string*);

constexpr milliseconds kAttempt{5000};  ///< of connecting; an interruption waits for it
constexpr milliseconds kBetweenAttempts{100};

Entry entry() {
  try {
    ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);  // each failed attempt would be logged
    return reinterpret_cast<Entry>(torch_entry("attest_torch_store", "LibTorch, whose store ranks share",
                                               "'./attest run' builds it where a launcher has set ranks"));
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

std::unique_ptr<JobStore> open_torch_store(const TorchStoreAddress& address, milliseconds wait, milliseconds limit,
                                           const std::atomic<bool>& stop) {
  const Entry make = entry();
  const std::string name = fmt::format("{}:{}", address.host, address.port);
  const Clock::time_point start = Clock::now();
  for (;;) {
    std::string why;
    try {
      const auto open = [=] {
        std::string error;
        std::unique_ptr<JobStore> store(make(&address, kAttempt.count(), &error));
        if (!store) throw StoreLost(error);
        return store;
      };
      return std::make_unique<TimedStore>(open, name, 3 * kAttempt, limit, &stop);
    } catch (const StoreLost& error) {
      why = error.what();
    }
    if (address.serve)
      throw OutputError(fmt::format(
          "the store of the ranks cannot be started at port {} ({}); MASTER_PORT names another", address.port, why));
    if (stop) throw Interrupted("interrupted");
    if (Clock::now() - start > wait)
      throw OutputError(
          fmt::format("no store at {} after {} s ({}): is rank 0 running, and are MASTER_ADDR and "
                      "MASTER_PORT right?",
                      name, wait.count() / 1000, why));
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

}  // namespace attest
