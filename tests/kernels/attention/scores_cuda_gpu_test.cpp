// Exact scores on the device and their float32 rests, against sums in double.
#include <gtest/gtest.h>

#include "kernels/attention/scores.h"
#include "kernels/attention/scores_cuda.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

// Relative to the sum of magnitudes: tensor cores truncate each addition, about 200 times for the widest float32 keys.
constexpr double kSum = 0x1p-18;
// With the rest added. The rest itself is rounded to float32.
constexpr double kRest = 0x1p-40;
// The product of two float32 values is a sum of six products of parts. The last three are up to 2^-18 of the first.
constexpr double kProduct = 0x1p-20;

struct PlainScore {
  double score = 0;
  double magnitude = 0;  ///< scale times the sum of |products|, plus the soft-cap
};

PlainScore plain_score(const Query& query, int h, int j) {
  double dot = 0, magnitude = 0;
  for (int d = 0; d < query.dim(); ++d) {
    dot += query.q(h, d) * query.k(j, d);
    magnitude += std::fabs(query.q(h, d) * query.k(j, d));
  }
  return {query.score_of(dot), query.head->transform.scale * magnitude + query.head->transform.softcap};
}

/// Enough tiles that a thread block handles several, one after the other.
Case many_tiles() {
  Case c{"many_tiles", 8, 4, 24, 8, ElementType::bfloat16, {}};
  for (int i = 0; i < 70; ++i) c.positions.push_back(25 + 59 * i);
  return c;
}

std::vector<Case> all_cases() {
  std::vector<Case> all = all_device_cases();
  all.push_back(many_tiles());
  return all;
}

std::vector<int> ends_of_tiles(const std::vector<int>& lengths) {
  std::vector<int> ends;
  for (int length : lengths) ends.push_back((length + 127) / 128 * 128);
  return ends;
}

class ScoresCuda : public OnGpuWith<Case> {};

TEST_P(ScoresCuda, AreSumsOfProducts) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  const RaggedRows<float> scores = gpu.take_rows<float>(ends_of_tiles(on.visible), on.rows.stride),
                          low = gpu.take_rows<float>(on.visible, on.rows.stride);
  cuda_scores(on.rows, on.kv, on.queries, scores.items, low.items, gpu.stream);
  const Rows<float> found = gpu.download_rows(scores), rest = gpu.download_rows(low);
  std::vector<RowMatrix<double>> cpu(on.heads.size());
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    const KvHead& head = on.heads[i].head;
    attest::scores(head.queries, head.rows(), head.head_dim, head.keys, head.length, head.transform, cpu[i]);
  }
  for (int r = 0; r < on.rows.num_rows; ++r) {
    const auto own = static_cast<std::size_t>(r);
    const double* of_cpu = cpu[static_cast<std::size_t>(on.origin[own])].row(on.row_of_head(r));
    for (std::size_t j = 0; j < found[own].size(); ++j) {
      const double score = static_cast<double>(found[own][j]);
      if (j >= rest[own].size()) {
        ASSERT_EQ(score, 0) << "row " << r << ", behind its end at " << j;
        continue;
      }
      const PlainScore plain = plain_score(on.row(r), on.head_of_group(r), static_cast<int>(j));
      const double refined = score + static_cast<double>(rest[own][j]);
      ASSERT_LE(std::fabs(score - plain.score), kSum * plain.magnitude) << "row " << r << ", token " << j;
      ASSERT_LE(std::fabs(refined - plain.score), kRest * plain.magnitude) << "row " << r << ", token " << j;
      ASSERT_LE(std::fabs(refined - of_cpu[j]), kRest * plain.magnitude) << "row " << r << ", token " << j;
    }
  }
}

/// Keys of which each is a float32 number and a rest far below its last place, in a part of the layer's heads and
/// tokens.
TEST_P(ScoresCuda, OfKeysThatWereRounded) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  int first_token = on.origins[0].first_key;
  for (const KeyOrigin& origin : on.origins) first_token = std::min(first_token, origin.first_key);
  const int tokens = static_cast<int>(on.layer.num_tokens) - first_token, dim = on.kv.head_dim;
  std::vector<KeyOrigin> origins = on.origins;
  for (KeyOrigin& origin : origins) origin.first_key -= first_token;
  std::vector<float> keys, rests;
  Random random(31);
  for (int h = 0; h < on.layer.shape.num_kv_heads; ++h) {
    const std::int64_t first = (h * on.layer.num_tokens + first_token) * dim;
    for (float key : floats_of(on.layer.element_type, on.layer.k, first, std::int64_t{tokens} * dim)) {
      keys.push_back(key * 1.0000001f);
      rests.push_back(static_cast<float>(0x1p-26 * random.normal() * std::fabs(static_cast<double>(key))));
    }
  }
  const MadeTokens made{gpu.upload(keys), tokens, gpu.upload(origins)};
  const RaggedRows<float> scores = gpu.take_rows<float>(on.visible, on.rows.stride),
                          low = gpu.take_rows<float>(on.visible, on.rows.stride);
  cuda_scores_of_rounded(made.seen_by(on.rows), made.as_keys(on.kv), gpu.upload(rests), on.queries, scores.items,
                         low.items, gpu.stream);
  const Rows<float> found = gpu.download_rows(scores), rest = gpu.download_rows(low);
  for (int r = 0; r < on.rows.num_rows; ++r) {
    const auto own = static_cast<std::size_t>(r);
    const KeyOrigin& origin = origins[static_cast<std::size_t>(on.origin[own])];
    const Query& query = on.row(r);
    for (int j = 0; j < on.length(r); ++j) {
      const auto at = static_cast<std::size_t>((std::int64_t{origin.kv_head} * tokens + origin.first_key + j) * dim);
      double dot = 0, magnitude = 0;
      for (int d = 0; d < dim; ++d) {
        const auto i = at + static_cast<std::size_t>(d);
        const double key = static_cast<double>(keys[i]) + static_cast<double>(rests[i]),
                     product = query.q(on.head_of_group(r), d) * key;
        dot += product;
        magnitude += std::fabs(product);
      }
      const ScoreTransform& transform = query.head->transform;
      magnitude = transform.scale * magnitude + transform.softcap;
      const double score = static_cast<double>(found[own][static_cast<std::size_t>(j)]);
      ASSERT_LE(std::fabs(score - query.score_of(dot)), kSum * magnitude) << "row " << r << ", token " << j;
      ASSERT_LE(std::fabs(score + static_cast<double>(rest[own][static_cast<std::size_t>(j)]) - query.score_of(dot)),
                kRest * magnitude)
          << "row " << r << ", token " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ScoresCuda, testing::ValuesIn(all_cases()), name_of_case);

class ScoresOfTypeCuda : public OnGpuWith<ElementType> {};

TEST_P(ScoresOfTypeCuda, AreExactForSmallIntegers) {
  for (int dim : {64, 100, 192}) {
    Gpu gpu;
    const DeviceLayer on(Case{"", 2, 4, dim, 64, GetParam(), {15, 128, 255, 256, 300}, Pattern::ties}, gpu);
    const RaggedRows<float> scores = gpu.take_rows<float>(on.visible, on.rows.stride);
    cuda_scores(on.rows, on.kv, on.queries, scores.items, {}, gpu.stream);
    const Rows<float> found = gpu.download_rows(scores);
    for (int r = 0; r < on.rows.num_rows; ++r)
      for (int j = 0; j < on.length(r); ++j)
        ASSERT_EQ(found[static_cast<std::size_t>(r)][static_cast<std::size_t>(j)],
                  static_cast<float>(on.row(r).exact(on.head_of_group(r), j)))
            << dim << " channels, row " << r << ", token " << j;
  }
}

// Each key has a single non-zero channel, so that a missing part shows.
TEST_P(ScoresOfTypeCuda, LoseNoPartOfAProduct) {
  AttentionLayer layer = make_layer({"", 1, 4, 64, 64, GetParam(), {100, 511, 512, 900, 999}});
  std::vector<float> keys = floats_of(layer.element_type, layer.k, 0, 1000 * 64);
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (i % 64 != i / 64 % 64) keys[i] = 0;
  layer.k = rounded(layer.element_type, keys);
  Gpu gpu;
  const DeviceLayer on(std::move(layer), gpu);
  const RaggedRows<float> scores = gpu.take_rows<float>(on.visible, on.rows.stride);
  cuda_scores(on.rows, on.kv, on.queries, scores.items, {}, gpu.stream);
  const Rows<float> found = gpu.download_rows(scores);
  for (int r = 0; r < on.rows.num_rows; ++r)
    for (int j = 0; j < on.length(r); ++j) {
      const double expected = on.row(r).exact(on.head_of_group(r), j),
                   score = static_cast<double>(found[static_cast<std::size_t>(r)][static_cast<std::size_t>(j)]);
      ASSERT_LE(std::fabs(score - expected), kProduct * std::fabs(expected)) << "row " << r << ", token " << j;
    }
}

TEST_P(ScoresOfTypeCuda, DoNotDependOnTheRowsBesideThem) {
  Gpu gpu;
  const DeviceLayer on(Case{"", 1, 7, 192, 64, GetParam(), {15, 127, 128, 200, 254, 255, 256, 257, 300, 301}}, gpu);
  Rows<float> together;
  for (int maximum : {64, 16, 5}) {
    const RaggedRows<float> scores = gpu.take_rows<float>(on.visible, on.rows.stride);
    cuda_scores(on.first_rows(on.rows.num_rows, maximum, gpu), on.kv, on.queries, scores.items, {}, gpu.stream);
    const Rows<float> found = gpu.download_rows(scores);
    if (together.empty()) together = found;
    EXPECT_TRUE(found == together) << "in batches of " << maximum;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ScoresOfTypeCuda,
                         testing::Values(ElementType::float16, ElementType::bfloat16, ElementType::float32),
                         name_of_type);

}  // namespace
}  // namespace attest::test
