// What the kernels of FFD's decode are given: pointers to a cache, and those of a call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/decode/base/ffd_shape.h"

namespace attest {

/// Bytes of a block's thumbnails with their scales, and of its residuals and values, in the given layout.
struct FfdBlockBytes {
  std::int64_t record = 0, residual = 0, values = 0;
};

/// Device pointers to a cache. A pair is (sequence, KV head); its index is sequence * num_kv_heads + KV head.
/// The layouts of records, residuals and values: ffd_fragments.cuh, ffd_reference_cuda.cuh.
struct FfdCacheView {
  std::uint8_t* records = nullptr;   ///< [pairs, max_blocks, record_bytes] thumbnails with their scales
  std::uint8_t* residual = nullptr;  ///< [pairs, max_blocks, 128 * D] e4m3
  void* values = nullptr;            ///< [pairs, max_blocks, 128 * Dv] 16 bit
  /// The keys of the sequence's last two blocks, full or not, in 16 bit: block b is at place b % 2. The last full one
  /// is what pseudo_max = exact looks at. [pairs, 2, 128 * D]
  void* last_keys = nullptr;
  void* tail_values = nullptr;  ///< [pairs, 128 * Dv] of the tokens that do not fill a block
  void* sink_keys = nullptr;    ///< [pairs, 128 * D] 16-bit keys of block 0
  int* lengths = nullptr;       ///< [batch] tokens of each sequence
  /// All sequences were of one length when the cache was filled. Every append then keeps them so.
  bool equal_lengths = true;
};

inline constexpr std::size_t kFfdAlignment = 16;  ///< of a call's q and out, in bytes

/// Device pointers of one call.
struct FfdDecodeCall {
  const void* q = nullptr;       ///< [batch, Hq, D]; aligned to kFfdAlignment
  const float* delta = nullptr;  ///< [Hkv] of topdelta, natural-log units; infinity keeps all blocks
  const float* sinks = nullptr;  ///< [Hq] logits of learned sinks, or null
  void* out = nullptr;           ///< [batch, Hq, Dv]; aligned to kFfdAlignment
  float* lse = nullptr;          ///< [batch, Hq] log-sum-exp over what was kept, tail and sink included
  int* kept = nullptr;           ///< [batch, Hkv] sub-blocks kept, the tail not counted
};

/// A scan without a decision.
struct FfdScanCall {
  const void* q = nullptr;  ///< [batch, Hq, D]; aligned to kFfdAlignment
  float* maxima = nullptr;  ///< [pairs, max_blocks * 128 / sub_block] largest s^ of the tokens and the group's heads
  float* scores = nullptr;  ///< [pairs, max_blocks * 128, G] s^ of every token of a full block; null: not wanted
};

}  // namespace attest
