// Keys and values of a layer that are kept outside host memory, on a GPU for instance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dumps/element_type.h"
#include "dumps/kv_arrival.h"

namespace attest {

inline constexpr std::uint64_t kFileBlock = std::uint64_t{1} << 20;

/// Block `number` of a dump's file, kFileBlock bytes, which lies in a tensor from byte `begin` on.
struct TensorBlock {
  KvTensor tensor = KvTensor::k;
  std::size_t begin = 0;
  std::uint64_t number = 0;
  bool operator==(const TensorBlock&) const = default;
};

/// What a store has found in the bytes that it was given.
struct StoreFindings {
  bool finite = true;
  std::vector<std::uint64_t> hashes;  ///< XXH64 of the blocks that were asked for, in their order
};

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

  /// Whether the store can check values and hash blocks itself, so that nobody on the host need.
  virtual bool inspects() const { return false; }
  /// Asks for that, between reserve() and the first put(). `blocks` begin at multiples of kHashAlignment bytes.
  virtual void begin_inspection(ElementType /*type*/, std::vector<TensorBlock> /*blocks*/) {}
  static constexpr std::size_t kHashAlignment = 8;
  /// Waits for what was found in a layer that was studied. Call it once.
  virtual StoreFindings findings() { return {}; }

  KvArrival arrival;
};

}  // namespace attest
