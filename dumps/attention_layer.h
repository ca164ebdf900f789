// One layer of one sample of a dump, in host memory: the input of every kernel, selector and metric.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dumps/element_type.h"
#include "dumps/estimates.h"
#include "dumps/layer_buffer.h"

namespace attest {

class KvSource;
class LayerStore;

/// Bytes that one token takes in a quantised cache; 0: 16 bits for each channel.
struct StoredBytes {
  double key = 0;
  double value = 0;  ///< read without its key
};

/// What one token has in the cache of one KV head.
struct KvShape {
  int head_dim = 0;             ///< D, of q and k
  int value_dim = 0;            ///< Dv, of v
  bool values_in_keys = false;  ///< the value is the first Dv channels of the key
  StoredBytes stored = {};

  double key_bytes() const { return stored.key > 0 ? stored.key : 2.0 * head_dim; }
  double value_bytes() const { return stored.value > 0 ? stored.value : 2.0 * value_dim; }
  /// Bytes of a value whose key is read as well.
  double value_bytes_beside_key() const { return values_in_keys ? 0 : value_bytes(); }
  double token_bytes() const { return key_bytes() + value_bytes_beside_key(); }
};

/// Head counts and dimensions of a model's attention (the same for all its layers).
struct AttentionShape {
  int num_query_heads = 0;  ///< Hq
  int num_kv_heads = 0;     ///< Hkv, divides Hq
  int head_dim = 0;         ///< D, of q and k
  int value_dim = 0;        ///< Dv, of v
  int values_in_keys = 0;   ///< 1: a token's value is the first Dv channels of its key (absorbed latent attention)

  KvShape kv() const { return {head_dim, value_dim, values_in_keys != 0}; }
  int group() const { return num_query_heads / num_kv_heads; }  ///< G, query heads per KV head
  bool operator==(const AttentionShape&) const = default;
};

/// Half-open range of token positions.
struct TokenSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const TokenSpan&) const = default;
};

/// How every layer of a model makes scores.
struct ModelAttention {
  AttentionShape shape;
  double softmax_scale = 0;
  double logit_softcap = 0;  ///< c of s <- c tanh(s/c); 0: none
};

/// What one layer has of its own.
struct LayerAttention {
  ElementType element_type = ElementType::float32;  ///< of q, k and v
  std::int64_t sliding_window = 0;                  ///< 0: none
  std::vector<float> sinks = {};                    ///< [Hq] learned sink logits, on the scale of the scores; or empty
  /// [N, Hq] norms of the margins' gradients, for all rows of the sample, whichever of them are studied; or empty.
  std::vector<float> head_gradient = {};
};

/// The tokens of a sample.
struct SampleTokens {
  std::int64_t num_tokens = 0;                ///< T
  std::vector<std::int64_t> query_positions;  ///< [N], strictly ascending, each in [0, T)
  std::vector<TokenSpan> spans;               ///< [S], evidence in the context, each within [0, T); may overlap
};

/// q [N, Hq, D], k [Hkv, T, D], v [Hkv, T, Dv], row-major, all of one element type, after RoPE, before the softmax
/// scale. The query at position p sees the keys max(0, p - sliding_window + 1) .. p.
struct AttentionLayer : ModelAttention, LayerAttention, SampleTokens {
  explicit AttentionLayer(std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : q(memory), k(memory), v(memory) {}

  int layer = 0;  ///< number within the model
  LayerBuffer q, k, v;
  std::shared_ptr<LayerStore> store;       ///< where k and v may be instead; null: nowhere
  bool in_store = false;                   ///< k and v are empty, `store` has them or gets them
  std::shared_ptr<const KvSource> source;  ///< if not null, k and v are empty and come from it
  std::vector<LayerEstimates> estimates;   ///< scores estimated by other programs, for the selectors that read them
  /// [N, Hq, Dv] gradient of the sum of the answer's margins by the outputs, averaged over their scales; or empty.
  std::vector<float> output_gradient;

  std::int64_t num_queries() const { return static_cast<std::int64_t>(query_positions.size()); }
  /// [Dv] of one row; empty if there is none.
  std::span<const float> output_gradient_of(std::int64_t query, int query_head) const {
    const auto dim = output_gradient.empty() ? 0 : static_cast<std::size_t>(shape.value_dim);
    const auto row = static_cast<std::size_t>(query * shape.num_query_heads + query_head);
    return std::span(output_gradient).subspan(row * dim, dim);
  }
  /// First key that the query at `position` sees.
  std::int64_t first_visible_key(std::int64_t position) const {
    return sliding_window > 0 ? std::max<std::int64_t>(0, position - sliding_window + 1) : 0;
  }
};

/// Keeps only the rows `which` (strictly ascending indices below N) of q, of the estimates, of output_gradient and of
/// query_positions.
void select_queries(AttentionLayer& layer, std::span<const std::size_t> which);

}  // namespace attest
