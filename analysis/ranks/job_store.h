// A small store of texts that all ranks of a job share: LibTorch's TCPStore (analysis/torch/torch_store.h), or memory
// in tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dumps/base/error.h"

namespace attest {

/// The store does not answer any more.
struct StoreLost : OutputError {
  using OutputError::OutputError;
};

/// Thread-safe. No call waits for a key. All throw StoreLost.
class JobStore {
 public:
  virtual ~JobStore() = default;

  virtual std::optional<std::string> get(const std::string& key) = 0;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Adds to a number, which is 0 if it is missing, and returns the sum. Such a key is for add() alone.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// Sets the key to `desired` if its value is `expected`; "" also stands for a missing key. Returns whether it did.
  /// `desired` must be a value that no one else sets.
  virtual bool replace(const std::string& key, const std::string& expected, const std::string& desired) = 0;
  virtual void erase(const std::string& key) = 0;
};

}  // namespace attest
