// Sums in float16 against plain loops, with and without a sink, in one part and in several.
#include "analysis/audit/half_sums.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/analysis/audit/plain_engine.h"

namespace attest::test {
namespace {

constexpr double kOrderOfSums = 1e-3;  // relative: a sum near the middle of two float16 numbers may fall to either

/// sum_j p_j v_j of a row, each partial sum through float16, in parts of `part` tokens.
Row plain_half_sums(const AttentionLayer& layer, std::int64_t row, int head, std::int64_t part, bool with_sink) {
  const std::int64_t tokens = layer.query_positions[static_cast<std::size_t>(row)] + 1, dim = layer.shape.value_dim,
                     key_dim = layer.shape.head_dim, kv_head = head / layer.shape.group();
  const Row q = row_of(layer, layer.q, row * layer.shape.num_query_heads + head, key_dim);
  Row s;
  for (std::int64_t j = 0; j < tokens; ++j) {
    const Row k = row_of(layer, layer.k, kv_head * layer.num_tokens + j, key_dim);
    double dot = 0;
    for (std::size_t d = 0; d < q.size(); ++d) dot += q[d] * k[d];
    s.push_back(layer.softmax_scale * dot);
  }
  Row output(static_cast<std::size_t>(dim), 0.0);
  double log_sum = 0, maximum = *std::ranges::max_element(s);
  for (const double x : s) log_sum += std::exp(x - maximum);
  if (with_sink) log_sum += std::exp(layer.sinks[static_cast<std::size_t>(head)] - maximum);
  for (std::int64_t begin = 0; begin < tokens; begin += part) {
    Row sums(static_cast<std::size_t>(dim), 0.0);
    double largest = -INFINITY;
    for (std::int64_t j = begin; j < std::min(tokens, begin + part); ++j) {
      const double score = s[static_cast<std::size_t>(j)];
      if (score > largest) {
        for (double& sum : sums) sum = to_type(ElementType::float16, sum * std::exp(largest - score));
        largest = score;
      }
      const Row v = row_of(layer, layer.v, kv_head * layer.num_tokens + j, dim);
      for (std::size_t d = 0; d < sums.size(); ++d)
        sums[d] = to_type(ElementType::float16, sums[d] + v[d] * std::exp(score - largest));
    }
    for (std::size_t d = 0; d < sums.size(); ++d) output[d] += sums[d] * std::exp(largest - maximum) / log_sum;
  }
  return output;
}

TEST(HalfSumsTest, AreThoseOfPlainLoops) {
  AttentionLayer layer = make_layer({"half", 2, 2, 64, 48, ElementType::float16, {299, 620}});
  layer.sinks.assign(4, 2.5f);
  const KvStorages dumped;
  for (const std::int64_t part : {1000, 384, 100})
    for (const bool with_sink : {false, true})
      for (const std::int64_t row : {0, 1})
        for (const int head : {0, 3}) {
          const StoredHead stored(layer, head / layer.shape.group(), dumped);
          RowModel model{
              .query = {}, .tokens = {0, layer.query_positions[static_cast<std::size_t>(row)] + 1}, .sink = {}};
          for (const double x : row_of(layer, layer.q, row * 4 + head, 64))
            model.query.push_back(static_cast<float>(x));
          if (with_sink) model.sink = 2.5;
          const std::vector<double> found = half_sum_output(stored, model, {layer.softmax_scale, 0}, part);
          const Row expected = plain_half_sums(layer, row, head, part, with_sink);
          double difference = 0, size = 0;
          for (std::size_t d = 0; d < expected.size(); ++d) {
            difference += std::pow(found[d] - expected[d], 2);
            size += expected[d] * expected[d];
          }
          EXPECT_LE(std::sqrt(difference / size), kOrderOfSums)
              << part << ' ' << with_sink << ' ' << row << ' ' << head;
        }
}

TEST(HalfSumsTest, ThreadsShareCachesFrom512Cells) {
  EXPECT_EQ(half_sum_part(200, 4), 256);
  EXPECT_EQ(half_sum_part(256, 4), 256);
  EXPECT_EQ(half_sum_part(257, 4), 128);
  EXPECT_EQ(half_sum_part(1000, 3), 342);
  EXPECT_EQ(half_sum_part(1000, 1), 1024);
}

}  // namespace
}  // namespace attest::test
