// A layer on the device: keys, values, queries, and the rows that are processed together.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "dumps/attention_layer.h"
#include "dumps/element_type.h"

namespace attest {

/// Maximum number of rows that share one pass over the keys: four tensor-core tiles.
inline constexpr int kMaxBatchRows = 64;
/// The row stride of [rows, tokens] matrices is a multiple of this, so that whole tiles can be written.
inline constexpr int kTileTokens = 128;

/// Rows of at most this many tokens are short: the float32 error of their scores is stored, too (low_scores.cuh).
inline constexpr int kShortRow = 4096;

/// The keys visible to a set of queries that share their first visible key. Tokens, blocks, pages and groups are
/// counted from that key.
struct KeyOrigin {
  int kv_head = 0;
  int first_key = 0;
  int length = 0;  ///< number of keys that its last query sees
};

/// Up to kMaxBatchRows rows with the same origin.
struct RowBatch {
  int first_row = 0;
  int num_rows = 0;
  int length = 0;  ///< largest `visible` of its rows
  int origin = 0;
  int params = 0;  ///< index of the quantiser's table for its keys; equals `origin` if each origin has one table
};

/// A row is one (query, query head). Rows are ordered by KV head, then query, then head of the group, so the `group`
/// rows of a query are consecutive. Plain device pointers, passed as a kernel argument.
struct DeviceRows {
  int num_rows = 0;
  int num_batches = 0;
  int num_origins = 0;
  int group = 1;  ///< G
  int max_length = 0;
  int layer_max_length = 0;  ///< longest row of the layer; these rows may be only a part of the layer
  int max_batch_rows = 0;
  std::int64_t stride = 0;             ///< elements between rows of [rows, tokens] matrices
  const RowBatch* batches = nullptr;   ///< [num_batches]
  const KeyOrigin* origins = nullptr;  ///< [num_origins]
  const int* visible = nullptr;        ///< [num_rows] L: the row sees keys 0 .. L-1
  const int* origin = nullptr;         ///< [num_rows]
  const int* query = nullptr;          ///< [num_rows] index of the query in the layer
  const int* cell = nullptr;           ///< [num_rows] query * Hq + query head: index of the row in q and in the results
  const float* sink = nullptr;         ///< [num_rows] logit of the head's learned sink; null: no sinks
};

/// Keys or values of a layer: [heads, tokens, channels] of its element type.
struct DeviceTokens {
  ElementType type = ElementType::float32;
  const void* data = nullptr;
  std::int64_t tokens = 0;
  int channels = 0;
};

/// k [heads, tokens, head_dim] and v [heads, tokens, value_dim] of the layer's element type.
struct DeviceKeyValues {
  ElementType type = ElementType::float32;
  const void* keys = nullptr;
  const void* values = nullptr;
  int head_dim = 0;   ///< D
  int value_dim = 0;  ///< Dv
  std::int64_t tokens = 0;
  float scale = 1;              ///< s = scale * q.k, then softcap * tanh(s / softcap)
  float softcap = 0;            ///< 0: none
  bool values_in_keys = false;  ///< v is the first Dv channels of k, stored once
  StoredBytes stored = {};      ///< what a key and a value cost that are read from a quantised cache

  KvShape shape() const { return {head_dim, value_dim, values_in_keys, stored}; }
  DeviceTokens all_keys() const { return {type, keys, tokens, head_dim}; }
  DeviceTokens all_values() const { return {type, values, tokens, value_dim}; }
};

/// Float32 keys or values that were made of the layer's, for some rows: of the KV heads and tokens that these see.
struct MadeTokens {
  const float* data = nullptr;         ///< [heads, tokens, channels]; null: the layer's own are read
  std::int64_t tokens = 0;             ///< of a head
  const KeyOrigin* origins = nullptr;  ///< [num_origins] those of the rows, counted in `data`

  DeviceRows seen_by(DeviceRows rows) const {
    rows.origins = origins;
    return rows;
  }
  /// `kv` with these as its keys (values). The others are not to be read: they are counted in another way.
  DeviceKeyValues as_keys(DeviceKeyValues kv) const {
    kv.type = ElementType::float32;
    kv.keys = data;
    kv.tokens = tokens;
    return kv;
  }
  DeviceKeyValues as_values(DeviceKeyValues kv) const {
    kv.type = ElementType::float32;
    kv.values = data;
    kv.tokens = tokens;
    return kv;
  }
};

/// Channels of per-channel tables and of query parts: D rounded up to a multiple of 64; the padding is zero.
__host__ __device__ constexpr int padded_channels(int head_dim) { return (head_dim + 63) / 64 * 64; }

/// Queries of all rows: float32 values, and bfloat16 parts whose sum is exactly the value.
struct QueryParts {
  const std::uint16_t* parts = nullptr;  ///< [num_parts, rows, padded_channels(D)]
  const float* values = nullptr;         ///< [rows, padded_channels(D)]
  int num_parts = 1;
  int rows = 0;
};

}  // namespace attest
