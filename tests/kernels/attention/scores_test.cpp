// Scores against a sum in long double, and bits that must not depend on the tiling.
#include "kernels/attention/scores.h"

#include <gtest/gtest.h>

#include "tests/cases.h"
#include "tests/kernels/plain.h"

namespace attest::test {
namespace {

std::vector<float> normals(std::int64_t count, Random& random) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) value = static_cast<float>(random.normal());
  return x;
}

double plain_dot(const float* q, const float* k, const float* r, int d) {
  long double sum = 0;
  for (int i = 0; i < d; ++i)
    sum += static_cast<long double>(q[i]) *
           (static_cast<long double>(k[i]) + (r == nullptr ? 0.0L : static_cast<long double>(r[i])));
  return static_cast<double>(sum);
}

TEST(Scores, AllShapes) {
  Random random(61);
  for (int rows : {1, 3, 4, 7, 8, 13, 32})
    for (std::int64_t length : {1, 15, 16, 17, 50})
      for (const auto& [d, transform] : {std::pair{64, ScoreTransform{0.125, 0}},
                                         {80, ScoreTransform{0.3, 5}},
                                         {1, ScoreTransform{1, 0}},
                                         {577, ScoreTransform{0.04, 50}}}) {
        const std::vector<float> q = normals(rows * d, random), k = normals(length * d, random),
                                 r = normals(length * d, random);
        RowMatrix<double> found, sums;
        scores(q.data(), rows, d, k.data(), length, transform, found);
        sums.resize(rows, length + 5);
        scores_of_sum_into(q.data(), rows, d, k.data(), r.data(), length, transform, sums.row(0) + 5, sums.stride());
        for (int row = 0; row < rows; ++row)
          for (std::int64_t j = 0; j < length; ++j) {
            const auto expected = [&](const float* rest) {
              const double s = transform.scale * plain_dot(q.data() + row * d, k.data() + j * d, rest, d);
              return transform.softcap > 0 ? transform.softcap * std::tanh(s / transform.softcap) : s;
            };
            ASSERT_NEAR(found.row(row)[j], expected(nullptr), 1e-12) << rows << " rows, row " << row << ", token " << j;
            ASSERT_NEAR(sums.row(row)[5 + j], expected(r.data() + j * d), 1e-12);
          }
      }
}

// Equal keys must tie and a row must not depend on its neighbours, or results would depend on batches and threads.
TEST(Scores, EqualKeysAndEqualRowsGiveEqualBits) {
  Random random(62);
  constexpr int kDim = 96, kRows = 13;
  const std::vector<float> key = normals(kDim, random), q = normals(kRows * kDim, random);
  std::vector<float> keys;
  for (int j = 0; j < 37; ++j) keys.insert(keys.end(), key.begin(), key.end());
  RowMatrix<double> together, alone;
  scores(q.data(), kRows, kDim, keys.data(), 37, {0.1, 0}, together);
  for (int r = 0; r < kRows; ++r) {
    scores(q.data() + r * kDim, 1, kDim, keys.data(), 37, {0.1, 0}, alone);
    for (int j = 0; j < 37; ++j) {
      EXPECT_EQ(together.row(r)[j], together.row(r)[0]);
      EXPECT_EQ(together.row(r)[j], alone.row(0)[j]);
    }
  }
}

}  // namespace
}  // namespace attest::test
