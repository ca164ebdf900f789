// Source: ggml_compute_forward_flash_attn_ext_f16_one_chunk and ggml_flash_attn_ext_reduce_partials of llama.cpp.
#include "analysis/audit/half_sums.h"

#include <algorithm>
#include <cmath>

#include "analysis/audit/kv_storage.h"
#include "dumps/element_type.h"
#include "kernels/attention/scores.h"

namespace attest {
namespace {

constexpr std::int64_t kCells = 256, kSharedCells = 512;

float half(float x) { return float16_to_float(float_to_float16(x)); }

/// Some of the tokens: sum_j exp(s_j - largest) v_j in float16, and the sum of the weights.
struct Part {
  float largest = -INFINITY, weight = 0;
  std::vector<float> sums;

  void add(float score, const double* value) {
    float factor = 1;
    if (score > largest) {
      const float kept = std::exp(largest - score);
      largest = score;
      for (float& sum : sums) sum = half(sum * kept);
      weight *= kept;
    } else {
      factor = std::exp(score - largest);
    }
    for (std::size_t d = 0; d < sums.size(); ++d)
      sums[d] = half(std::fma(static_cast<float>(value[d]), factor, sums[d]));
    weight += factor;
  }

  /// In float32.
  void take(const Part& other) {
    if (other.weight == 0) return;
    const float maximum = std::max(largest, other.largest), kept = std::exp(largest - maximum),
                factor = std::exp(other.largest - maximum);
    for (std::size_t d = 0; d < sums.size(); ++d) sums[d] = sums[d] * kept + other.sums[d] * factor;
    weight = weight * kept + other.weight * factor;
    largest = maximum;
  }
};

}  // namespace

std::int64_t half_sum_part(std::int64_t tokens, int threads) {
  const std::int64_t cells = (tokens + kCells - 1) / kCells * kCells;
  return cells < kSharedCells ? cells : (cells + threads - 1) / threads;
}

std::vector<double> half_sum_output(const StoredHead& head, const RowModel& row, const ScoreTransform& transform,
                                    std::int64_t part) {
  const auto key_dim = static_cast<std::size_t>(head.layer().shape.head_dim),
             dim = static_cast<std::size_t>(head.layer().shape.value_dim);
  std::vector<double> keys(kTile * key_dim), values(kTile * dim), scores(kTile);
  const Part none{.sums = std::vector<float>(dim, 0.0f)};
  Part all = none, now = none;
  for_tiles(row.tokens.begin, row.tokens.end, nullptr, [&](std::int64_t first, std::int64_t count) {
    head.keys(first, count, keys.data());
    head.values(first, count, values.data());
    scores_into(row.query.data(), 1, static_cast<int>(key_dim), keys.data(), count, transform, scores.data(), kTile);
    for (std::int64_t t = 0; t < count; ++t) {
      if ((first + t) % part == 0) {
        all.take(now);
        now = none;
      }
      now.add(static_cast<float>(scores[static_cast<std::size_t>(t)]),
              values.data() + static_cast<std::size_t>(t) * dim);
    }
  });
  all.take(now);
  double weight = all.weight, factor = 1;
  if (row.sink) {
    const double maximum = std::max<double>(all.largest, *row.sink);
    factor = std::exp(all.largest - maximum);
    weight = weight * factor + std::exp(*row.sink - maximum);
  }
  std::vector<double> output(dim);
  for (std::size_t d = 0; d < dim; ++d) output[d] = all.sums[d] * factor / weight;
  return output;
}

}  // namespace attest
