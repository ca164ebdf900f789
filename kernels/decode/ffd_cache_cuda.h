// The quantised KV cache of one layer that ffd_decode reads: thumbnails, residuals, values and the 16-bit tail.
// Source: Faster Than Flash, "Content-Aware Scanning via Low-Bit Quantization", and its released paged cache (blocks of
// 128 tokens, scales per block and channel, e4m3 residuals, a 16-bit tail of the tokens that do not fill a block).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/decode/base/ffd_call.h"
#include "kernels/device/buffers.h"

namespace attest {

/// Owns the memory of one layer's cache, and the scratch memory of its decode calls: two calls may not run at once on
/// one cache.
class FfdCache {
 public:
  /// Allocates. Throws InputError on a shape that no layout supports, DeviceError if the memory does not suffice, or
  /// the device does not run the layout that the shape names.
  explicit FfdCache(const FfdCacheShape& shape);

  const FfdCacheShape& shape() const { return shape_; }  ///< `layout` is the one that was chosen
  const FfdCacheView& view() const { return view_; }
  std::byte* scratch() const { return scratch_.data(); }
  std::size_t bytes() const { return memory_.size(); }  ///< without scratch memory

  /// Fills the cache. k [batch, Hkv, stride, D] and v [batch, Hkv, stride, Dv] hold sequences of lengths[b] <=
  /// max_tokens tokens, `stride` tokens apart. k and v are free for reuse once `stream` has passed the call, and so
  /// are `lengths` (host memory), which in memory that is not page-locked are free when it returns.
  void build(const void* k, const void* v, std::int64_t stride, const int* lengths, cudaStream_t stream);

  /// Appends one token to every sequence: k [batch, Hkv, D], v [batch, Hkv, Dv]. A block that it fills is quantised. A
  /// sequence of max_tokens tokens stays as it is. Safe to capture in a CUDA graph.
  void append(const void* k, const void* v, cudaStream_t stream);

 private:
  FfdCacheShape shape_;
  FfdCacheView view_;
  DeviceBuffer memory_, scratch_;
};

/// Of the shape's layout, which is not `automatic`.
FfdBlockBytes ffd_block_bytes(const FfdCacheShape& shape);

}  // namespace attest
