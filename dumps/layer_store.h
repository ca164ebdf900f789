// Keys and values of a layer that are kept outside host memory, on a GPU for instance.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "dumps/kv_arrival.h"

namespace attest {

/// Takes the keys [Hkv, T, D] and values [Hkv, T, Dv] of one layer piece by piece, so that host memory does not grow
/// with the layer.
class LayerStore {
 public:
  /// Most bytes of a piece.
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  using Fill = std::function<void(std::span<std::byte>)>;

  virtual ~LayerStore() = default;

  /// Makes room for tensors of so many bytes; what the store held is dropped. False: it has too little room.
  virtual bool reserve(std::size_t key_bytes, std::size_t value_bytes) = 0;
  /// `fill` writes bytes [offset, offset + bytes) of a tensor, which then move to their place. Called by several
  /// threads at once. What `fill` throws passes through.
  virtual void put(KvTensor tensor, std::size_t offset, std::size_t bytes, const Fill& fill) = 0;

  KvArrival arrival;
};

}  // namespace attest
