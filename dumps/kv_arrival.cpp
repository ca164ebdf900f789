// KvArrival: counts the bytes that each head lacks.
#include "dumps/kv_arrival.h"

#include <algorithm>

namespace attest {

void KvArrival::begin(int num_heads, std::size_t key_bytes, std::size_t value_bytes) {
  const std::lock_guard lock(mutex_);
  head_bytes_[0] = key_bytes, head_bytes_[1] = value_bytes;
  missing_.assign(static_cast<std::size_t>(num_heads), key_bytes + value_bytes);
  not_begun_ = static_cast<std::size_t>(num_heads) * (key_bytes + value_bytes);
  state_ = {};
}

void KvArrival::add_begun(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  not_begun_ -= bytes;
  if (not_begun_ > 0) return;
  state_.all_begun = true;
  changed_.notify_all();
}

void KvArrival::add(KvTensor tensor, std::size_t offset, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t end = offset + bytes;
  while (offset < end) {
    const std::size_t head = offset / head_bytes(tensor);
    const std::size_t until = std::min(end, (head + 1) * head_bytes(tensor));
    missing_.at(head) -= until - offset;
    offset = until;
  }
  const auto arrived = std::ranges::find_if(missing_, [](std::size_t lacks) { return lacks > 0; }) - missing_.begin();
  if (arrived == state_.heads) return;
  state_.heads = static_cast<int>(arrived);
  changed_.notify_all();
}

void KvArrival::end() {
  const std::lock_guard lock(mutex_);
  state_.ended = true;
  changed_.notify_all();
}

KvArrival::State KvArrival::wait(int heads, std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return state_.heads >= heads || state_.ended; });
  return state_;
}

KvArrival::State KvArrival::wait_for_last_begun(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return state_.all_begun || state_.ended; });
  return state_;
}

}  // namespace attest
