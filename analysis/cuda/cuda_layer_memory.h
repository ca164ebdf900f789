// Where the device memory of a study goes: two slots for inputs, the stores of layers that arrive as a whole, and the
// rest to scratch memory, which several streams may share.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "analysis/cuda/cuda_layer_store.h"
#include "dumps/attention_layer.h"
#include "kernels/device/buffers.h"
#include "kernels/device/device_arena.h"
#include "kernels/device/stream.h"

namespace attest {

/// One layer is computed while the next is copied.
inline constexpr int kLayersSubmitted = 2;
/// Two more arrive meanwhile, so that copies go on while one layer takes longer to compute than others.
inline constexpr int kLayersAtOnce = kLayersSubmitted + 2;

/// Bytes of all queries of a layer, and of the keys and of the values of one KV head.
struct LayerBytes {
  explicit LayerBytes(const AttentionLayer& layer);
  std::size_t q, k, v;
};

/// Device copies of a layer's queries and, without a store, of the keys and values of a range of KV heads. `copied`:
/// the copy is complete. `free`: the kernels that read the slot have finished.
struct InputSlot {
  DeviceBuffer q, k, v;
  CudaEvent copied, free;
};

class CudaLayerMemory {
 public:
  /// Streams of selectors. Six selectors of 32 layers of 32K tokens kept an H200 busy for 0.099 s with two of them, for
  /// 0.096 s with three, for 0.088 s with four.
  static constexpr std::size_t kSelectorStreams = 4;
  /// Chunks whose exact attention is in memory: one is begun while selectors still compare theirs with the other.
  static constexpr std::size_t kChunks = 2;
  /// Scratch memory of exact attention alone, or of a selector alone, in bytes per (row, token), approximate: of six
  /// selectors and rows of 256K tokens, the largest took 34.4. A chunk that does not fit is begun twice.
  static constexpr std::size_t kBytesSideBySide = 36;
  /// (row, token) pairs of a chunk: more are no faster. On an H200, two layers of 256K tokens with 64 queries took 0.79
  /// s with chunks of 64 Mi to 256 Mi, and 0.82 s with 32 Mi.
  static constexpr std::size_t kMostElements = std::size_t{64} << 20;

  /// `bytes`: what may be used in all. `side_by_side`: scratch memory is shared among kChunks and kSelectorStreams, in
  /// equal parts.
  CudaLayerMemory(std::size_t bytes, bool side_by_side);

  /// What the stores of kLayersAtOnce layers take: at most a quarter of the memory.
  const std::shared_ptr<CudaStoreRoom>& stores() const { return stores_; }

  /// The most KV heads of a layer whose keys and values fit in a slot; at least one. Both slots take half of the
  /// memory, with what stores have taken.
  int heads_per_slot(const AttentionLayer& layer) const;
  /// Sizes the slots for `heads` KV heads, and leaves the rest to scratch memory. `stores`: what the stores of such
  /// layers take. Throws DeviceError if that is too much. `idle`: no layer is submitted; once `stream` has ended,
  /// scratch memory that came in pieces is then made one.
  void size_for(const AttentionLayer& layer, int heads, std::size_t stores, bool idle, const CudaStream& stream);
  /// The slots take turns.
  InputSlot& next_slot();

  /// So many bytes of zeros, which count as memory in use from the next size_for() on; null if there is little room for
  /// them. One size for the life of this object.
  const std::byte* zeros(std::size_t bytes, const CudaStream& stream);

  /// Of the exact attention of a chunk, numbered from 0; if nothing runs side by side, of its selectors, too, and for
  /// any chunk the same.
  DeviceArena& scratch(std::size_t chunk) { return chunks_[side_by_side_ ? chunk % kChunks : 0]; }
  std::span<DeviceArena> selector_scratch() { return selectors_; }
  bool side_by_side() const { return side_by_side_; }
  /// From now on one stream has all scratch memory. The device must be idle.
  void stop_side_by_side();

  /// How many (row, token) pairs a chunk may have: at most kMostElements. The first call takes the scratch memory that
  /// this layer needs.
  std::size_t max_elements(const AttentionLayer& layer);
  /// What max_elements() is from now on, after a chunk that did not fit.
  void limit_elements(std::size_t elements) { max_elements_ = elements; }

 private:
  void limit_arenas();
  template <class Call>
  void for_each_arena(Call&& call);

  const std::size_t bytes_;
  const std::shared_ptr<CudaStoreRoom> stores_ = std::make_shared<CudaStoreRoom>();
  std::array<InputSlot, 2> slots_;
  std::size_t next_slot_ = 0;
  bool side_by_side_;
  DeviceBuffer zeros_;
  std::size_t scratch_ = 0;  ///< bytes of all arenas
  std::vector<DeviceArena> chunks_, selectors_;
  std::size_t max_elements_ = 0;  ///< 0: not known yet
};

}  // namespace attest
