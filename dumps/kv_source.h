// Keys and values that are read when they are needed, some KV heads at a time: neither host memory nor a store has room
// for the layer.
#pragma once

#include <cstddef>
#include <functional>

#include "dumps/layer_store.h"

namespace attest {

class KvSource {
 public:
  /// As LayerStore::put; offsets count from the first of the heads.
  using Put = std::function<void(KvTensor tensor, std::size_t offset, std::size_t bytes, const LayerStore::Fill& fill)>;

  virtual ~KvSource() = default;
  /// Passes all bytes of KV heads [first, first + count) on, by several threads. Throws InputError.
  virtual void read(int first, int count, const Put& put) const = 0;
};

}  // namespace attest
