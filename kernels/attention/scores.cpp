// Register-tiled double-precision products of query rows with key tiles that are transposed on the way into the cache.
#include "kernels/attention/scores.h"

#include <algorithm>
#include <vector>

namespace attest {
namespace {

constexpr int kTile = 16;      // tokens of a tile: two 8-wide double vectors
constexpr int kRowBlock = 8;   // rows whose sums stay in registers together

typedef double Vec8 __attribute__((vector_size(64), aligned(64)));

/// tile[d][t] = key[t][d] (+ residual[t][d]); missing tokens are zero.
void load_tile(const float* keys, const float* residuals, int head_dim, int count, double* tile) {
  for (int t = 0; t < count; ++t) {
    const float* key = keys + static_cast<std::int64_t>(t) * head_dim;
    if (residuals == nullptr) {
      for (int d = 0; d < head_dim; ++d) tile[d * kTile + t] = key[d];
    } else {
      const float* residual = residuals + static_cast<std::int64_t>(t) * head_dim;
      for (int d = 0; d < head_dim; ++d) tile[d * kTile + t] = static_cast<double>(key[d]) + residual[d];
    }
  }
  for (int t = count; t < kTile; ++t)
    for (int d = 0; d < head_dim; ++d) tile[d * kTile + t] = 0;
}

template <int Rows>
void multiply(const double* queries, int head_dim, const double* tile, double (*out)[kTile]) {
  Vec8 low[Rows] = {}, high[Rows] = {};
  for (int d = 0; d < head_dim; ++d) {
    const Vec8 a = *reinterpret_cast<const Vec8*>(tile + d * kTile);
    const Vec8 b = *reinterpret_cast<const Vec8*>(tile + d * kTile + 8);
    for (int r = 0; r < Rows; ++r) {
      const double q = queries[static_cast<std::int64_t>(r) * head_dim + d];
      low[r] += q * a;
      high[r] += q * b;
    }
  }
  for (int r = 0; r < Rows; ++r) {
    *reinterpret_cast<Vec8*>(out[r]) = low[r];
    *reinterpret_cast<Vec8*>(out[r] + 8) = high[r];
  }
}

void multiply_rows(int rows, const double* queries, int head_dim, const double* tile, double (*out)[kTile]) {
  int r = 0;
  for (; r + kRowBlock <= rows; r += kRowBlock)
    multiply<kRowBlock>(queries + static_cast<std::int64_t>(r) * head_dim, head_dim, tile, out + r);
  for (; r + 4 <= rows; r += 4) multiply<4>(queries + static_cast<std::int64_t>(r) * head_dim, head_dim, tile, out + r);
  for (; r < rows; ++r) multiply<1>(queries + static_cast<std::int64_t>(r) * head_dim, head_dim, tile, out + r);
}

void run(const float* queries, int rows, int head_dim, const float* keys, const float* residuals, std::int64_t length,
         const ScoreTransform& transform, double* out, std::int64_t out_stride) {
  const std::vector<double> q(queries, queries + static_cast<std::int64_t>(rows) * head_dim);
  RowMatrix<double> scratch;
  scratch.resize(head_dim + rows, kTile);
  double* tile = scratch.row(0);
  auto* products = reinterpret_cast<double(*)[kTile]>(scratch.row(head_dim));
  for (std::int64_t j = 0; j < length; j += kTile) {
    const int count = static_cast<int>(std::min<std::int64_t>(kTile, length - j));
    load_tile(keys + j * head_dim, residuals == nullptr ? nullptr : residuals + j * head_dim, head_dim, count, tile);
    multiply_rows(rows, q.data(), head_dim, tile, products);
    for (int r = 0; r < rows; ++r) {
      double* target = out + r * out_stride + j;
      if (transform.softcap > 0) {
        for (int t = 0; t < count; ++t) target[t] = transform(products[r][t]);
      } else {
        for (int t = 0; t < count; ++t) target[t] = transform.scale * products[r][t];
      }
    }
  }
}

}  // namespace

void scores(const float* queries, int rows, int head_dim, const float* keys, std::int64_t length,
            const ScoreTransform& transform, RowMatrix<double>& out) {
  out.resize(rows, length);
  run(queries, rows, head_dim, keys, nullptr, length, transform, out.row(0), out.stride());
}

void scores_into(const float* queries, int rows, int head_dim, const float* keys, std::int64_t length,
                 const ScoreTransform& transform, double* out, std::int64_t out_stride) {
  run(queries, rows, head_dim, keys, nullptr, length, transform, out, out_stride);
}

void scores_of_sum_into(const float* queries, int rows, int head_dim, const float* keys, const float* residuals,
                        std::int64_t length, const ScoreTransform& transform, double* out, std::int64_t out_stride) {
  run(queries, rows, head_dim, keys, residuals, length, transform, out, out_stride);
}

}  // namespace attest
