// The low part of a score: its double value minus a given float32 value, which need not be near the score.
#include <gtest/gtest.h>

#include "kernels/attention/low_scores.cuh"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

// The kernel adds in double and rounds the rest to float32.
constexpr double kSum = 0x1p-44, kLow = 0x1p-24;

/// A key form that uses every field of KeyPlace. All its steps are exact.
struct ScaledKeys {
  __host__ __device__ static float factor(int params, int token, std::int64_t key, int channel) {
    return static_cast<float>(1 << (params + token + static_cast<int>(key % 3) + channel / kOctet) % 4);
  }
  __device__ void operator()(const KeyPlace& place, float (&key)[kOctet], float (&)[kOctet]) const {
    for (float& x : key) x *= factor(place.params, place.token, place.key, place.channel);
  }
};

/// Random numbers in place of float32 scores.
Rows<float> any_scores(const std::vector<int>& lengths, std::uint64_t seed) {
  Random random(seed);
  Rows<float> rows;
  for (int length : lengths) {
    rows.emplace_back();
    for (int j = 0; j < length; ++j) rows.back().push_back(static_cast<float>(4 * random.normal()));
  }
  return rows;
}

class LowScores : public OnGpuWith<Case> {};

TEST_P(LowScores, HighPlusLowIsTheDoubleScore) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  DeviceRows rows = on.rows;
  std::vector<RowBatch> batches = on.batches;
  for (std::size_t i = 0; i < batches.size(); ++i) batches[i].params = static_cast<int>(i + 1);
  rows.batches = gpu.upload(batches);
  std::vector<int> limits;
  for (int length : on.visible) {
    const int choices[] = {0, 1, length / 2, length - 1, length};
    limits.push_back(choices[limits.size() % 5]);
  }
  Rows<float> scores = any_scores(on.visible, 73), exact_low = any_scores(on.visible, 74);
  const RaggedRows<float> low = gpu.take_rows<float>(on.visible, rows.stride);
  low_scores(rows, on.queries, on.kv, ScaledKeys{},
             {.limit = gpu.upload(limits),
              .scores = gpu.upload_rows(scores, rows.stride).items.data,
              .exact_low = gpu.upload_rows(exact_low, rows.stride).items.data,
              .low = low.items.data},
             gpu.stream);
  const Rows<float> found = gpu.download_rows(low);
  for (const RowBatch& batch : batches)
    for (int row = batch.first_row; row < batch.first_row + batch.num_rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      const KeyOrigin& origin = on.origins[static_cast<std::size_t>(batch.origin)];
      const Query& query = on.row(row);
      for (int j = 0; j < on.length(row); ++j) {
        const auto at = static_cast<std::size_t>(j);
        if (j >= limits[r]) {
          ASSERT_EQ(found[r][at], exact_low[r][at]) << "row " << row << ", token " << j;
          continue;
        }
        const std::int64_t key = origin.kv_head * on.layer.num_tokens + origin.first_key + j;
        double dot = 0, magnitude = 0;
        for (int d = 0; d < query.dim(); ++d) {
          const double factor = ScaledKeys::factor(batch.params, j, key, d / kOctet * kOctet);
          dot += query.q(on.head_of_group(row), d) * factor * query.k(j, d);
          magnitude += std::fabs(query.q(on.head_of_group(row), d) * factor * query.k(j, d));
        }
        const double expected = query.score_of(dot) - static_cast<double>(scores[r][at]);
        const ScoreTransform& transform = query.head->transform;
        ASSERT_LE(std::fabs(static_cast<double>(found[r][at]) - expected),
                  kLow * std::fabs(expected) + kSum * (transform.scale * magnitude + transform.softcap))
            << "row " << row << ", token " << j;
      }
    }
}

// Of keys that were rounded to float32, with what the rounding left.
TEST_P(LowScores, OfKeysWithTheirLowPart) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  Random random(75);
  std::vector<float> keys(static_cast<std::size_t>(on.layer.shape.num_kv_heads * on.layer.num_tokens * on.kv.head_dim)),
      rests(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const double key = random.normal();
    keys[i] = static_cast<float>(key);
    rests[i] = static_cast<float>(key - static_cast<double>(keys[i]));
  }
  DeviceKeyValues kv = on.kv;
  kv.type = ElementType::float32;
  kv.keys = gpu.upload(keys);
  Rows<float> scores = any_scores(on.visible, 76);
  const RaggedRows<float> low = gpu.take_rows<float>(on.visible, on.rows.stride);
  low_scores(on.rows, on.queries, kv, KeysWithLow{gpu.upload(rests), kv.head_dim},
             {.scores = gpu.upload_rows(scores, on.rows.stride).items.data, .low = low.items.data}, gpu.stream);
  const Rows<float> found = gpu.download_rows(low);
  for (int r = 0; r < on.rows.num_rows; ++r) {
    const KeyOrigin& origin = on.origins[static_cast<std::size_t>(on.origin[static_cast<std::size_t>(r)])];
    const Query& query = on.row(r);
    for (int j = 0; j < on.length(r); ++j) {
      const std::int64_t at = (origin.kv_head * on.layer.num_tokens + origin.first_key + j) * query.dim();
      double dot = 0, magnitude = 0;
      for (int d = 0; d < query.dim(); ++d) {
        const auto i = static_cast<std::size_t>(at + d);
        const double key = static_cast<double>(keys[i]) + static_cast<double>(rests[i]);
        dot += query.q(on.head_of_group(r), d) * key;
        magnitude += std::fabs(query.q(on.head_of_group(r), d) * key);
      }
      const auto row = static_cast<std::size_t>(r), token = static_cast<std::size_t>(j);
      const double expected = query.score_of(dot) - static_cast<double>(scores[row][token]);
      const ScoreTransform& transform = query.head->transform;
      ASSERT_LE(std::fabs(static_cast<double>(found[row][token]) - expected),
                kLow * std::fabs(expected) + kSum * (transform.scale * magnitude + transform.softcap))
          << "row " << r << ", token " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LowScores, testing::ValuesIn(device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
