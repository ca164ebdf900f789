// Largest magnitudes of a layer's keys and values.
#include "analysis/layer/layer_amax.h"

#include "dumps/base/parallel_for.h"
#include "kernels/kv_formats/amax.h"

namespace attest {

LayerAmax layer_amax(const AttentionLayer& layer, int threads) {
  const auto heads = static_cast<std::size_t>(layer.shape.num_kv_heads);
  LayerAmax amax{std::vector<float>(heads), std::vector<float>(heads)};
  parallel_for(threads, 2 * heads, [&](int, std::size_t i) {
    const bool keys = i < heads;
    const std::size_t count = static_cast<std::size_t>(layer.num_tokens) *
                              static_cast<std::size_t>(keys ? layer.shape.head_dim : layer.shape.value_dim);
    const std::byte* first = (keys ? layer.k : layer.v).data() + (i % heads) * count * size_of(layer.element_type);
    (keys ? amax.keys : amax.values)[i % heads] = max_magnitude(layer.element_type, first, count);
  });
  return amax;
}

}  // namespace attest
