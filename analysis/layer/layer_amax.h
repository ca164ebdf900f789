// Largest magnitudes of a layer's keys and values, for the selectors that ask for them (Selector::needs_amax).
#pragma once

#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

struct LayerAmax {
  std::vector<float> keys, values;  ///< [KV heads]; empty: nobody asks
};

/// Over all tokens of the layer.
LayerAmax layer_amax(const AttentionLayer& layer, int threads);

}  // namespace attest
