// Adds up values by head.
#include "experiments/study_view/head_means.h"

namespace attest {

std::map<HeadPlace, Mean> head_means(std::span<const SampleCells> samples, MeanOver over, int group) {
  std::map<HeadPlace, Mean> means;
  const auto add = [&](int layer, std::int64_t head, double value) {
    means[{layer, static_cast<int>(head) / group}].add(value);
  };
  for (const SampleCells& cells : samples) {
    if (over == MeanOver::samples) {
      for (const Pair& pair : pair_values({&cells, 1})) add(pair.layer, pair.head, pair.value);
      continue;
    }
    for (std::size_t y = 0; y < cells.layers.size(); ++y)
      for (std::int64_t n = 0; n < (over == MeanOver::first_queries ? 1 : cells.num_queries); ++n)
        for (std::int64_t h = 0; h < cells.num_heads; ++h)
          add(cells.layers[y], h,
              static_cast<double>(cells.layer(y)[static_cast<std::size_t>(n * cells.num_heads + h)]));
  }
  std::erase_if(means, [](const auto& entry) { return entry.second.count == 0; });
  return means;
}

}  // namespace attest
