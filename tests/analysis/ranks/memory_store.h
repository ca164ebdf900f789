// A JobStore in memory, shared by the threads of a test.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "analysis/ranks/job_store.h"

namespace attest::test {

class MemoryStore final : public JobStore {
 public:
  std::optional<std::string> get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    count();
    const auto found = values_.find(key);
    return found != values_.end() ? std::optional(found->second) : std::nullopt;
  }
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    count();
    values_[key] = value;
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const std::lock_guard lock(mutex_);
    count();
    std::string& value = values_[key];
    value = std::to_string((value.empty() ? 0 : std::stoll(value)) + amount);
    return std::stoll(value);
  }
  bool replace(const std::string& key, const std::string& expected, const std::string& desired) override {
    const std::lock_guard lock(mutex_);
    count();
    const auto found = values_.find(key);
    if ((found != values_.end() ? found->second : "") != expected) return false;
    values_[key] = desired;
    return true;
  }
  void erase(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    count();
    values_.erase(key);
  }

  /// From the call after so many on, every call throws.
  void fail_after(int calls) {
    const std::lock_guard lock(mutex_);
    calls_left_ = calls;
  }
  std::size_t num_keys() {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }
  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  void count() {
    ++calls_;
    if (calls_left_ >= 0 && calls_left_-- == 0) {
      calls_left_ = 0;
      throw StoreLost("the store is gone");
    }
  }

  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  int calls_left_ = -1, calls_ = 0;
};

}  // namespace attest::test
