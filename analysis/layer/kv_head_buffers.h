// A layer's KV heads as float32, batch by batch.
#pragma once

#include <atomic>
#include <vector>

#include "analysis/layer/kv_head_batches.h"
#include "kernels/base/kv_head.h"

namespace attest {

/// A batch of a layer whose numbers are elsewhere: keys [length, D] and values [length, Dv] from token first_key on,
/// queries [num_queries, G, D]. The result refers to `layer` and `batch`.
KvHead kv_head_of(const AttentionLayer& layer, const KvHeadBatch& batch, const float* keys, const float* values,
                  const float* queries, const std::atomic<bool>* stop);

/// Buffers that one thread reuses between batches.
class KvHeadBuffers {
 public:
  /// Forgets the keys and values of the layer before.
  void begin_layer() { kv_head_ = -1; }

  /// Converts the batch's queries, keys and values. Keys and values are kept if the last batch had the same KV head.
  /// The result refers to `layer`, `batch` and these buffers.
  KvHead load(const AttentionLayer& layer, const KvHeadBatch& batch, const std::atomic<bool>* stop);

 private:
  int kv_head_ = -1;
  std::vector<float> keys_, values_, queries_;
};

}  // namespace attest
