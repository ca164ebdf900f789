// One KV head as a batch of queries sees it: the unit on which every selector and every kernel of the CPU path works.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "dumps/element_type.h"
#include "dumps/estimates.h"

namespace attest {

/// From a dot product q.k to a score in natural-log units: s = scale * q.k, then c * tanh(s / c) where there is a
/// soft-cap. Estimates of a score go through the same transform.
struct ScoreTransform {
  double scale = 1;
  double softcap = 0;  ///< c; 0: none

  double operator()(double dot) const {
    const double s = scale * dot;
    return softcap > 0 ? softcap * std::tanh(s / softcap) : s;
  }
};

/// Keys and values of one KV head from the first key that its queries see, as float32 (the dump's values, exactly), and
/// the queries of its group. All queries share their first key, so that blocks, pages and groups count from the same
/// token; they differ in how many keys they see. A *row* is one (query, query head of the group), row = query * group +
/// head.
struct KvHead {
  int head_dim = 0;   ///< D
  int value_dim = 0;  ///< Dv
  int group = 1;      ///< G, query heads
  int num_queries = 0;
  std::int64_t length = 0;                          ///< keys in view: the largest of `visible`
  const float* keys = nullptr;                      ///< [length, D]
  const float* values = nullptr;                    ///< [length, Dv]
  const float* queries = nullptr;                   ///< [num_queries, G, D]
  std::span<const std::int64_t> visible;            ///< [num_queries] L >= 1, ascending: query n sees keys 0 .. L-1
  ElementType element_type = ElementType::float32;  ///< of the dump: what `quant_arith = dump` rounds to
  ScoreTransform transform;
  std::span<const float> sinks;               ///< [G] learned sink logits; empty: none
  int layer = 0;                              ///< number within the model
  int kv_head = 0;                            ///< number within the layer
  std::span<const LayerEstimates> estimates;  ///< of the layer, from files
  std::int64_t first_query = 0;               ///< of the layer: query n is query first_query + n there
  std::int64_t first_key = 0;                 ///< of the sample

  int rows() const { return num_queries * group; }
  std::int64_t row_length(int row) const { return visible[static_cast<std::size_t>(row / group)]; }
};

}  // namespace attest
