#include "dumps/estimates.h"

#include <fmt/format.h>

#include <cmath>

#include "dumps/attention_layer.h"

namespace attest {

std::string first_bad_estimate(const AttentionLayer& layer, const std::string& sample) {
  for (const LayerEstimates& estimates : layer.estimates)
    for (std::int64_t n = 0; n < layer.num_queries(); ++n) {
      const std::int64_t position = layer.query_positions[static_cast<std::size_t>(n)];
      const int width = estimates.source.width;
      for (int head = 0; head < estimates.num_heads; ++head)
        for (std::int64_t i = layer.first_visible_key(position) / width; i <= position / width; ++i) {
          const double value = estimates.at(n, head, i);
          if (value < INFINITY) continue;
          return fmt::format("{}: sample '{}', layer {}, '{}', query at {}, head {}: {} at {} {}",
                             estimates.source.file, sample, layer.layer, estimates.source.dataset, position, head,
                             std::isnan(value) ? "NaN" : "infinity", width == 1 ? "token" : "block", i);
        }
    }
  return {};
}

}  // namespace attest
