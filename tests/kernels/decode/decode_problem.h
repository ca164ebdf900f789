// Inputs of a decode call for tests: random queries, keys and values whose sub-blocks differ in importance.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "dumps/element_type.h"
#include "kernels/decode/ffd_cache_cuda.h"
#include "kernels/decode/ffd_decode_cuda.h"
#include "tests/cases.h"

namespace attest::test {

/// Host arrays of one call. The values of q, k and v are values of shape.element_type.
struct DecodeProblem {
  FfdCacheShape shape;
  FfdDecodeOptions options;
  std::vector<int> lengths;  ///< [batch]
  std::int64_t stride = 0;   ///< tokens from one KV head to the next
  std::vector<float> q;      ///< [batch, Hq, D]
  std::vector<float> k, v;   ///< [batch, Hkv, stride, D] and [.., Dv]; NaN beyond a sequence's length
  std::vector<float> delta;  ///< [Hkv]
  std::vector<float> sinks;  ///< [Hq], or empty

  std::int64_t pairs() const { return shape.pairs(); }
  int length(std::int64_t pair) const { return lengths[static_cast<std::size_t>(pair / shape.num_kv_heads)]; }
  int full_blocks(std::int64_t pair) const { return length(pair) / kFfdBlock; }
  int sub_blocks(std::int64_t pair) const { return full_blocks(pair) * (kFfdBlock / options.sub_block); }
  const float* query(std::int64_t pair, int h) const { return q.data() + (pair * shape.group + h) * shape.head_dim; }
  const float* key(std::int64_t pair, std::int64_t token) const {
    return k.data() + (pair * stride + token) * shape.head_dim;
  }
  const float* value(std::int64_t pair, std::int64_t token) const {
    return v.data() + (pair * stride + token) * shape.value_dim;
  }
};

inline float float_of(ElementType type, std::uint16_t bits) {
  return type == ElementType::float16 ? float16_to_float(bits) : bfloat16_to_float(bits);
}
inline std::uint16_t bits_of(ElementType type, float value) {
  return type == ElementType::float16 ? float_to_float16(value) : float_to_bfloat16(value);
}
/// The 16-bit elements of an array whose values are of the type.
inline std::vector<std::uint16_t> bits_of(ElementType type, const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (float x : values) bits.push_back(bits_of(type, x));
  return bits;
}
inline std::vector<float> floats_of(ElementType type, const std::vector<std::uint16_t>& bits) {
  std::vector<float> values;
  for (std::uint16_t x : bits) values.push_back(float_of(type, x));
  return values;
}

/// The queries of a group resemble each other. Stretches of 32 keys are near that common direction to different
/// degrees, a few much more than the others; the first and the last full block have one of those, as attention sinks
/// and recent tokens are.
inline DecodeProblem make_decode_problem(const FfdCacheShape& shape, const FfdDecodeOptions& options,
                                         std::vector<int> lengths, bool with_sinks, std::uint64_t seed) {
  constexpr int kStretch = 32;
  const int dim = shape.head_dim, value_dim = shape.value_dim;
  DecodeProblem problem{shape, options, std::move(lengths), 0, {}, {}, {}, {}, {}};
  problem.options.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
  problem.stride = *std::max_element(problem.lengths.begin(), problem.lengths.end()) + 3;
  problem.delta.assign(static_cast<std::size_t>(shape.num_kv_heads), 5.0f);
  const auto tokens = static_cast<std::size_t>(shape.pairs() * problem.stride);
  problem.k.assign(tokens * static_cast<std::size_t>(dim), std::numeric_limits<float>::quiet_NaN());
  problem.v.assign(tokens * static_cast<std::size_t>(value_dim), std::numeric_limits<float>::quiet_NaN());

  Random random(seed);
  const auto rounded = [&](double x) {
    return float_of(shape.element_type, bits_of(shape.element_type, static_cast<float>(x)));
  };
  for (std::int64_t pair = 0; pair < shape.pairs(); ++pair) {
    std::vector<double> common(static_cast<std::size_t>(dim)), width(common.size()), shift(common.size());
    for (std::size_t d = 0; d < common.size(); ++d) {
      common[d] = random.normal();
      width[d] = 0.7 * std::exp(0.5 * random.normal());
      shift[d] = 0.3 * random.normal();
    }
    for (int h = 0; h < shape.group; ++h)
      for (double x : common) problem.q.push_back(rounded(0.9 * x + 0.45 * random.normal()));
    const int length = problem.length(pair), covered = problem.full_blocks(pair) * kFfdBlock;
    double nearness = 0;
    for (int t = 0; t < length; ++t) {
      if (t % kStretch == 0) nearness = random.uniform() < 0.1 ? random.uniform(3, 11) : random.uniform(0, 2);
      if (t == 0 || t == covered - kStretch) nearness = random.uniform(8.5, 10);
      float* key = problem.k.data() + (pair * problem.stride + t) * dim;
      for (std::size_t d = 0; d < common.size(); ++d)
        key[d] =
            rounded(width[d] * random.normal() + shift[d] + nearness / std::sqrt(static_cast<double>(dim)) * common[d]);
      float* value = problem.v.data() + (pair * problem.stride + t) * value_dim;
      for (int d = 0; d < value_dim; ++d) value[d] = rounded(0.2 * nearness + random.normal());
    }
  }
  for (int h = 0; with_sinks && h < shape.num_kv_heads * shape.group; ++h)
    problem.sinks.push_back(static_cast<float>(4 + 2 * random.normal()));
  return problem;
}

}  // namespace attest::test
