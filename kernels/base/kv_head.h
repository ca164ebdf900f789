// One KV head and a batch of queries of its group: the unit of work of every selector and every CPU kernel.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <span>

#include "dumps/attention_layer.h"
#include "dumps/base/error.h"
#include "dumps/element_type.h"
#include "dumps/estimates.h"

namespace attest {

/// Turns a dot product q.k into a score in natural-log units: s = scale * q.k, then c * tanh(s / c) if the model has a
/// soft-cap. Estimated scores use the same transform.
struct ScoreTransform {
  double scale = 1;
  double softcap = 0;  ///< c; 0: none

  double operator()(double dot) const {
    const double s = scale * dot;
    return softcap > 0 ? softcap * std::tanh(s / softcap) : s;
  }
};

/// Keys and values of one KV head, starting at the first key visible to its queries, and the queries of its group. All
/// are float32 and equal the dump's values exactly. All queries have the same first key, so blocks, pages and groups
/// start at the same token; the number of visible keys differs by query. A *row* is one (query, query head of the
/// group): row = query * group + head.
struct KvHead {
  int head_dim = 0;             ///< D
  int value_dim = 0;            ///< Dv
  bool values_in_keys = false;  ///< a token's value is the first Dv channels of its key
  int group = 1;                ///< G, query heads
  int num_queries = 0;
  std::int64_t length = 0;                          ///< number of keys: the largest of `visible`
  const float* keys = nullptr;                      ///< [length, D]
  const float* values = nullptr;                    ///< [length, Dv]
  const float* queries = nullptr;                   ///< [num_queries, G, D]
  std::span<const std::int64_t> visible;            ///< [num_queries] L >= 1, ascending: query n sees keys 0 .. L-1
  ElementType element_type = ElementType::float32;  ///< of the dump; `quant_arith = dump` rounds to it
  ScoreTransform transform;
  std::span<const float> sinks;          ///< [G] learned sink logits; empty: none
  int layer = 0;                         ///< index in the model
  int kv_head = 0;                       ///< index in the layer
  std::span<const float> key_amax = {};  ///< [KV heads] largest |k| of the layer's sample, if the selector asks for it
  std::span<const float> value_amax = {};     ///< [KV heads]
  std::span<const LayerEstimates> estimates;  ///< of the layer, read from files
  std::int64_t first_query = 0;               ///< query n here is query first_query + n of the layer
  std::int64_t first_key = 0;                 ///< key 0 here is key first_key of the sample
  StoredBytes stored = {};                    ///< what a key and a value cost that are read from a quantised cache

  const std::atomic<bool>* stop = nullptr;  ///< set when the user interrupts; null: never

  /// Called in loops that may take seconds at a million tokens.
  void throw_if_stopped() const {
    if (stop != nullptr && *stop) throw Interrupted("interrupted");
  }

  /// Tokens of a tile whose keys, converted for a scan, stay in the cache.
  static constexpr std::int64_t kTokensAtOnce = 256;
  /// Calls tile(begin, count) for the first `tokens` tokens, `at_once` of them at a time. Ends with Interrupted if the
  /// user interrupts.
  template <class Tile>
  void each_tile(std::int64_t tokens, std::int64_t at_once, Tile&& tile) const {
    for (std::int64_t begin = 0; begin < tokens; begin += at_once) {
      throw_if_stopped();
      tile(begin, std::min(at_once, tokens - begin));
    }
  }

  KvShape shape() const { return {head_dim, value_dim, values_in_keys, stored}; }
  int rows() const { return num_queries * group; }
  std::int64_t row_length(int row) const { return visible[static_cast<std::size_t>(row / group)]; }
};

}  // namespace attest
