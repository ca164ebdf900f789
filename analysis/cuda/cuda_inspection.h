// Checks values and hashes blocks of a layer's keys and values on the device, where reading threads need not look at
// them: with both on the host, reading took twice as long as copying.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dumps/layer_store.h"
#include "kernels/device/buffers.h"
#include "kernels/device/stream.h"

namespace attest {

/// Of one layer at a time. Not thread-safe.
class CudaInspection {
 public:
  /// Drops what was found in another layer, once its work is done. `num_blocks`: how many will be hashed.
  void begin(ElementType type, std::size_t num_blocks);
  /// Enqueues a check of `bytes` bytes of whole elements. Values that are NaN or infinite become zero, so that kernels
  /// never meet them: the layer is refused.
  void check(std::byte* data, std::size_t bytes, cudaStream_t stream);
  /// Enqueues the XXH64 of num_blocks blocks of kFileBlock bytes, which begin at multiples of
  /// LayerStore::kHashAlignment. They are of one layer, whose values have been checked.
  void hash(std::span<const std::byte* const> blocks, cudaStream_t stream);
  /// Waits for the work so far.
  StoreFindings findings();
  void wait() const { done_.synchronize(); }

 private:
  int* bad() const { return reinterpret_cast<int*>(memory_.data()); }
  const std::byte** places() const { return reinterpret_cast<const std::byte**>(memory_.data()) + 1; }
  std::uint64_t* hashes() const { return reinterpret_cast<std::uint64_t*>(memory_.data()) + 1 + num_blocks_; }

  ElementType type_ = ElementType::float32;
  std::size_t num_blocks_ = 0;
  PageLockedBuffer memory_;  ///< 8 bytes with the flag, the places of the blocks, their hashes; kernels use it in place
  CudaEvent done_;
};

}  // namespace attest
