// Score tiles with key forms made for this test: arguments of a form, residuals, limits of rows, and float32 rests.
#include <gtest/gtest.h>

#include "kernels/attention/score_tiles.cuh"
#include "kernels/attention/scores_cuda.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

// As in scores_cuda_gpu_test.cpp.
constexpr double kSum = 0x1p-18;
constexpr double kRest = 0x1p-40;

/// Key and residual depend on every field of KeyPlace. All steps are exact.
struct MarkedKeys {
  int num_parts = 3, num_residual_parts = 1;
  static constexpr bool has_residual = true;

  __host__ __device__ static double factor(int token) { return 1 << token % 3; }
  __host__ __device__ static double residual(int params, std::int64_t key, int channel) {
    return static_cast<double>(key % 7) / 4 - static_cast<double>(channel % 5) / 2 + params;
  }
  __device__ void operator()(const KeyPlace& place, float (&key)[kOctet], float (&rest)[kOctet]) const {
    for (int i = 0; i < kOctet; ++i) {
      key[i] *= static_cast<float>(factor(place.token));
      rest[i] = static_cast<float>(residual(place.params, place.key, place.channel + i));
    }
  }
};

/// Rounds keys to small integers, which fit in one bfloat16 part.
struct WholeKeys {
  int num_parts = 1;
  static constexpr int num_residual_parts = 0;
  static constexpr bool has_residual = false;

  __device__ void operator()(const KeyPlace&, float (&key)[kOctet], float (&)[kOctet]) const {
    for (float& x : key) x = fminf(fmaxf(rintf(4 * x), -100.0f), 100.0f);
  }
};

struct PlainScores {
  double score = 0, refined = 0, magnitude = 0;
};

/// Scores of the key key(d), without and with the residual rest(d).
template <class Key, class Rest>
PlainScores plain_scores(const Query& query, int h, Key&& key, Rest&& rest) {
  double dot = 0, of_rest = 0, magnitude = 0;
  for (int d = 0; d < query.dim(); ++d) {
    dot += query.q(h, d) * key(d);
    of_rest += query.q(h, d) * rest(d);
    magnitude += std::fabs(query.q(h, d)) * (std::fabs(key(d)) + std::fabs(rest(d)));
  }
  const ScoreTransform& transform = query.head->transform;
  return {query.score_of(dot), query.score_of(dot + of_rest), transform.scale * magnitude + transform.softcap};
}

/// Rows of numbers that differ from all scores.
Rows<float> other_scores(const std::vector<int>& lengths, std::uint64_t seed) {
  Random random(seed);
  Rows<float> rows;
  for (int length : lengths) {
    rows.emplace_back();
    for (int j = 0; j < length; ++j) rows.back().push_back(static_cast<float>(1000 + random.normal()));
  }
  return rows;
}

class ScoreTiles : public OnGpuWith<Case> {};

TEST_P(ScoreTiles, TakeTheFormUpToTheLimit) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  DeviceRows rows = on.rows;
  std::vector<RowBatch> batches = on.batches;
  for (std::size_t i = 0; i < batches.size(); ++i) batches[i].params = static_cast<int>(3 * i + 1);
  rows.batches = gpu.upload(batches);
  std::vector<int> limits, ends;
  for (int length : on.visible) {
    const int choices[] = {0, 1, length / 2, length - 1, length};
    limits.push_back(choices[limits.size() % 5]);
    ends.push_back((length + 127) / 128 * 128);
  }
  const std::int64_t stride = rows.stride;
  const Rows<float> exact = other_scores(on.visible, 71), exact_low = other_scores(on.visible, 72);
  const RaggedRows<float> scores = gpu.take_rows<float>(ends, stride), refined = gpu.take_rows<float>(ends, stride),
                          low = gpu.take_rows<float>(on.visible, stride);
  score_rows(rows, on.queries, on.kv, MarkedKeys{},
             {.limit = gpu.upload(limits),
              .exact = gpu.upload_rows(exact, stride).items.data,
              .scores = scores.items.data,
              .refined = refined.items.data,
              .exact_low = gpu.upload_rows(exact_low, stride).items.data,
              .low = low.items.data},
             gpu.stream);
  const Rows<float> found = gpu.download_rows(scores), found_refined = gpu.download_rows(refined),
                    rest = gpu.download_rows(low);
  for (const RowBatch& batch : batches)
    for (int row = batch.first_row; row < batch.first_row + batch.num_rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      const KeyOrigin& origin = on.origins[static_cast<std::size_t>(batch.origin)];
      const std::int64_t first_key = origin.kv_head * on.layer.num_tokens + origin.first_key;
      for (int j = 0; j < ends[r]; ++j) {
        const auto at = static_cast<std::size_t>(j);
        if (j >= limits[r]) {
          const bool seen = j < on.visible[r];
          ASSERT_EQ(found[r][at], seen ? exact[r][at] : 0) << "row " << r << ", token " << j;
          ASSERT_EQ(found_refined[r][at], seen ? exact[r][at] : 0) << "row " << r << ", token " << j;
          if (seen) ASSERT_EQ(rest[r][at], exact_low[r][at]) << "row " << r << ", token " << j;
          continue;
        }
        const Query& query = on.row(row);
        const PlainScores plain = plain_scores(
            query, on.head_of_group(row), [&](int d) { return MarkedKeys::factor(j) * query.k(j, d); },
            [&](int d) { return MarkedKeys::residual(batch.params, first_key + j, d); });
        const double score = found[r][at];
        ASSERT_LE(std::fabs(score - plain.score), kSum * plain.magnitude) << "row " << r << ", token " << j;
        ASSERT_LE(std::fabs(found_refined[r][at] - plain.refined), kSum * plain.magnitude)
            << "row " << r << ", token " << j;
        ASSERT_LE(std::fabs(score + rest[r][at] - plain.score), kRest * plain.magnitude)
            << "row " << r << ", token " << j;
      }
    }
}

TEST_P(ScoreTiles, TakeFewerPartsWhereTheyHoldAll) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  const RaggedRows<float> scores = gpu.take_rows<float>(on.visible, on.rows.stride);
  score_rows(on.rows, on.queries, on.kv, WholeKeys{}, {.scores = scores.items.data}, gpu.stream);
  const Rows<float> found = gpu.download_rows(scores);
  for (int r = 0; r < on.rows.num_rows; ++r)
    for (int j = 0; j < on.length(r); ++j) {
      const Query& query = on.row(r);
      const PlainScores plain = plain_scores(
          query, on.head_of_group(r), [&](int d) { return std::clamp(half_even(4 * query.k(j, d)), -100.0, 100.0); },
          [](int) { return 0; });
      const float score = found[static_cast<std::size_t>(r)][static_cast<std::size_t>(j)];
      ASSERT_LE(std::fabs(score - plain.score), kSum * plain.magnitude) << "row " << r << ", token " << j;
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, ScoreTiles, testing::ValuesIn(device_cases()), name_of_case);

class BareProducts : public OnGpu {};

// Some rules apply scale and soft-cap themselves.
TEST_F(BareProducts, AreNeitherScaledNorCapped) {
  Gpu gpu;
  const DeviceLayer on(Case{"", 1, 4, 64, 64, ElementType::bfloat16, {100, 300}, Pattern::ties, 20}, gpu);
  const RaggedRows<float> scores = gpu.take_rows<float>(on.visible, on.rows.stride);
  cuda_scores(on.rows, without_score_transform(on.kv), on.queries, scores.items, {}, gpu.stream);
  const Rows<float> found = gpu.download_rows(scores);
  for (int r = 0; r < on.rows.num_rows; ++r)
    for (int j = 0; j < on.length(r); ++j) {
      double dot = 0;
      for (int d = 0; d < 64; ++d) dot += on.row(r).q(on.head_of_group(r), d) * on.row(r).k(j, d);
      ASSERT_EQ(found[static_cast<std::size_t>(r)][static_cast<std::size_t>(j)], dot) << "row " << r << ", token " << j;
    }
}

}  // namespace
}  // namespace attest::test
