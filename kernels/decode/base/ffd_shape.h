// Shape of FFD's quantised cache and options of its decode, with what each allows.
#pragma once

#include <cstdint>

#include "dumps/element_type.h"

namespace attest {

inline constexpr int kFfdBlock = 128;        ///< tokens of a block
inline constexpr int kFfdMaxGroup = 16;      ///< query heads per KV head
inline constexpr int kFfdMaxChannels = 576;  ///< of head_dim and of value_dim

/// How a cache lies in memory. `fragments` is the order in which tensor cores take their operands (fits_fragments()),
/// for compute capability 9.0 or later. `row_major` is for every other size and older GPUs.
enum class FfdCacheLayout : std::uint8_t { automatic, fragments, row_major };

struct FfdCacheShape {
  int batch = 1;  ///< sequences
  int num_kv_heads = 1;
  int group = 1;  ///< G, query heads per KV head, at most kFfdMaxGroup
  int head_dim = 128;
  int value_dim = 128;
  std::int64_t max_tokens = 0;                      ///< of a sequence
  ElementType element_type = ElementType::float16;  ///< of queries, keys, values and outputs: float16 or bfloat16
  int bits = 2;                                     ///< of a thumbnail's code: 2, 4 or 8
  FfdCacheLayout layout = FfdCacheLayout::automatic;

  std::int64_t pairs() const { return static_cast<std::int64_t>(batch) * num_kv_heads; }  ///< (sequence, KV head)
  std::int64_t max_blocks() const { return max_tokens / kFfdBlock; }                      ///< full blocks of a pair
};

/// Whether the layout of tensor cores has this shape: head_dim and value_dim both 64 with 2 bits, or both 128 (more
/// than 2 bits: up to 4 query heads per KV head).
bool fits_fragments(const FfdCacheShape& shape);

/// The pseudo-maximum that delta counts from (selectors/ffd.cpp). `exact` looks at one sink and one local block.
enum class FfdDecodePseudoMax : std::uint8_t { thumbnail, exact, global };
enum class FfdDecodeRule : std::uint8_t { topdelta, topk };
/// Of `fragments`. `fused`: one launch. `split`: scan, selection, refinement and merge are launches of their own (the
/// paper's ablation). A decode in `row_major` has several launches always.
enum class FfdLaunches : std::uint8_t { fused, split };

/// Which thread block attends a kept tile: `static_shares`, the one that scanned it, without waiting for others;
/// `balanced`, any, so that all have the same number, after a barrier of the grid. Heads keep very different shares,
/// which costs more the longer the sequences are.
enum class FfdBalance : std::uint8_t { automatic, static_shares, balanced };

struct FfdDecodeOptions {
  float scale = 1;  ///< of the softmax, above 0
  FfdDecodeRule rule = FfdDecodeRule::topdelta;
  FfdDecodePseudoMax pseudo_max = FfdDecodePseudoMax::thumbnail;
  int sink_blocks = 1, local_blocks = 1;  ///< at most 4 each
  int sub_block = kFfdBlock;              ///< 16, 32, 64 or 128 tokens
  /// Of topk, per (sequence, KV head). The group's maximum is ranked, ties go to the lower index.
  int keep_sub_blocks = 1;
  FfdLaunches launches = FfdLaunches::fused;
  FfdBalance balance = FfdBalance::automatic;  ///< of a fused launch in `fragments`
};

/// Throw InputError with what was expected and found.
void check_shape(const FfdCacheShape& shape);
void check_options(const FfdDecodeOptions& options);
/// A sequence of the cache has at most max_tokens tokens, of `stride` that are given.
void check_length(const FfdCacheShape& shape, int sequence, std::int64_t length, std::int64_t stride);

}  // namespace attest
