// Converts the tensors of a layer to float32.
#include "analysis/layer/kv_head_buffers.h"

namespace attest {

KvHead kv_head_of(const AttentionLayer& layer, const KvHeadBatch& batch, const float* keys, const float* values,
                  const float* queries, const std::atomic<bool>* stop) {
  const AttentionShape& shape = layer.shape;
  const auto group = static_cast<std::size_t>(shape.group()), head = static_cast<std::size_t>(batch.kv_head);
  return {.head_dim = shape.head_dim,
          .value_dim = shape.value_dim,
          .values_in_keys = shape.values_in_keys != 0,
          .group = shape.group(),
          .num_queries = static_cast<int>(batch.visible.size()),
          .length = batch.visible.back(),
          .keys = keys,
          .values = values,
          .queries = queries,
          .visible = batch.visible,
          .element_type = layer.element_type,
          .transform = {layer.softmax_scale, layer.logit_softcap},
          .sinks = layer.sinks.empty() ? std::span<const float>() : std::span(layer.sinks).subspan(head * group, group),
          .layer = layer.layer,
          .kv_head = batch.kv_head,
          .estimates = layer.estimates,
          .first_query = batch.first_query,
          .first_key = batch.first_key,
          .stop = stop};
}

KvHead KvHeadBuffers::load(const AttentionLayer& layer, const KvHeadBatch& batch, const std::atomic<bool>* stop) {
  const AttentionShape& shape = layer.shape;
  const auto d = static_cast<std::size_t>(shape.head_dim), dv = static_cast<std::size_t>(shape.value_dim);
  const auto tokens = static_cast<std::size_t>(layer.num_tokens), element = size_of(layer.element_type);
  const auto head = static_cast<std::size_t>(batch.kv_head);
  if (kv_head_ != batch.kv_head) {
    keys_.resize(tokens * d);
    values_.resize(tokens * dv);
    convert_to_float(layer.element_type, layer.k.data() + head * tokens * d * element, tokens * d, keys_.data());
    convert_to_float(layer.element_type, layer.v.data() + head * tokens * dv * element, tokens * dv, values_.data());
    kv_head_ = batch.kv_head;
  }
  const auto group = static_cast<std::size_t>(shape.group()), heads = static_cast<std::size_t>(shape.num_query_heads);
  queries_.resize(batch.visible.size() * group * d);
  for (std::size_t n = 0; n < batch.visible.size(); ++n) {
    const std::size_t source = ((static_cast<std::size_t>(batch.first_query) + n) * heads + head * group) * d;
    convert_to_float(layer.element_type, layer.q.data() + source * element, group * d, queries_.data() + n * group * d);
  }
  return kv_head_of(layer, batch, keys_.data() + static_cast<std::size_t>(batch.first_key) * d,
                    values_.data() + static_cast<std::size_t>(batch.first_key) * dv, queries_.data(), stop);
}

}  // namespace attest
