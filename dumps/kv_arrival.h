// Which KV heads of a layer have arrived, while others are still being read.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace attest {

enum class KvTensor : std::uint8_t { k, v };

/// Thread-safe.
class KvArrival {
 public:
  /// A new layer, of which nothing has arrived: bytes of k and of v per KV head.
  void begin(int num_heads, std::size_t key_bytes, std::size_t value_bytes);
  /// So many more bytes are being read.
  void add_begun(std::size_t bytes);
  /// Bytes [offset, offset + bytes) of a tensor have arrived. Each byte is reported once.
  void add(KvTensor tensor, std::size_t offset, std::size_t bytes);
  /// Nothing more comes: everything has arrived, or reading has failed.
  void end();

  struct State {
    int heads = 0;  ///< the first ones, whose keys and values have arrived as a whole
    bool ended = false;
    bool all_begun = false;  ///< nothing is left that is not being read
  };
  /// Waits until `heads` of them are there or nothing more comes, at most so long.
  State wait(int heads, std::chrono::milliseconds timeout) const;
  /// The same until all of the layer is being read.
  State wait_for_last_begun(std::chrono::milliseconds timeout) const;

 private:
  std::size_t head_bytes(KvTensor tensor) const { return head_bytes_[static_cast<std::size_t>(tensor)]; }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::size_t head_bytes_[2] = {};
  std::vector<std::size_t> missing_;  ///< bytes of each head, of keys and values together
  std::size_t not_begun_ = 0;         ///< bytes
  State state_;
};

}  // namespace attest
