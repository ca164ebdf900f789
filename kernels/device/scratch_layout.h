// Places parts in one buffer of device memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attest {

/// Bytes of a part with those that keep the next one aligned.
constexpr std::size_t aligned_part(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Hands out parts of a buffer, or with a null buffer counts them.
class ScratchLayout {
 public:
  explicit ScratchLayout(std::byte* base) : base_(base) {}

  template <class T>
  void take(T*& part, std::int64_t count) {
    part = base_ != nullptr ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    used_ += aligned_part(static_cast<std::size_t>(count) * sizeof(T));
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace attest
