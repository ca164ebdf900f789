// LibTorch's TCPStore: what torchrun starts, or a rank of ours.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "analysis/ranks/job_store.h"

namespace attest {

struct TorchStoreAddress {
  std::string host;
  int port = 0;
  bool serve = false;  ///< start it here, at this port
};

/// Connects; a store that is not there yet is tried again until `wait` is over. Calls end within `limit`. Throws
/// UsageError if LibTorch cannot be opened, OutputError if there is no store or it cannot be started, Interrupted if
/// `stop` is set.
std::unique_ptr<JobStore> open_torch_store(const TorchStoreAddress& address, std::chrono::milliseconds wait,
                                           std::chrono::milliseconds limit, const std::atomic<bool>& stop);

}  // namespace attest
