// JobStore by c10d::TCPStore.
#include "analysis/torch/torch_store.h"

#include <c10/util/Logging.h>

#include <stdexcept>
#include <string_view>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "analysis/ranks/job_store.h"

namespace attest {
namespace {

/// The first line of LibTorch's message, without its place in the source.
std::string first_line(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  return std::string(text.substr(0, text.find("Exception raised from")));
}

/// LibTorch's exceptions stay in the module.
template <class Call>
auto translated(Call&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw StoreLost(first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw StoreLost(first_line(error.what()));
  }
}

class TorchStore final : public JobStore {
 public:
  TorchStore(const TorchStoreAddress& address, std::chrono::milliseconds timeout)
      : store_(address.host, options(address, timeout)) {}

  std::optional<std::string> get(const std::string& key) override {
    // In one round trip, where get() would wait for the key: a store that lacks the key answers what was expected.
    static const std::string kMissing("\0missing", 8);
    std::string value = translated([&] { return store_.compareSet(key, kMissing, kMissing); });
    if (value == kMissing) return std::nullopt;
    return value;
  }
  void set(const std::string& key, const std::string& value) override {
    translated([&] { store_.set(key, std::vector<std::uint8_t>(value.begin(), value.end())); });
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return translated([&] { return store_.add(key, amount); });
  }
  bool replace(const std::string& key, const std::string& expected, const std::string& desired) override {
    return translated([&] { return store_.compareSet(key, expected, desired) == desired; });
  }
  void erase(const std::string& key) override {
    translated([&] { store_.deleteKey(key); });
  }

 private:
  /// Of the base class; the derived class hides it.
  struct Store final : c10d::TCPStore {
    using TCPStore::compareSet;
    using TCPStore::TCPStore;
    std::string compareSet(const std::string& key, const std::string& expected, const std::string& desired) {
      return c10d::Store::compareSet(key, expected, desired);
    }
  };

  static c10d::TCPStoreOptions options(const TorchStoreAddress& address, std::chrono::milliseconds timeout) {
    c10d::TCPStoreOptions made;
    made.port = static_cast<std::uint16_t>(address.port);
    made.isServer = address.serve;
    made.waitWorkers = false;
    made.timeout = timeout;
    return made;
  }

  Store store_;
};

}  // namespace
}  // namespace attest

/// Entry point that store_loader.cpp looks up. Null, with the error as text, if there is no connection.
extern "C" attest::JobStore* attest_torch_store(const attest::TorchStoreAddress* address, std::int64_t timeout_ms,
                                                std::string* error) {
  try {
    c10::initLogging();  // takes the level from the environment, where store_loader.cpp has set it
    return attest::translated([&] { return new attest::TorchStore(*address, std::chrono::milliseconds(timeout_ms)); });
  } catch (const std::exception& e) {
    *error = e.what();
  }
  return nullptr;
}
