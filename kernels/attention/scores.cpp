// Register-tiled double-precision products of query rows with key tiles. Tiles are transposed when they are loaded.
#include "kernels/attention/scores.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/base/vec8.h"

namespace attest {
namespace {

constexpr int kScoreTile = 16;  // tokens per tile: two 8-wide double vectors
constexpr int kRowBlock = 8;    // rows whose sums are in registers at the same time

/// Transposes m in place: swaps blocks of 4 x 4, then 2 x 2, then 1 x 1 elements.
void transpose(Vec8d (&m)[8]) {
  for (int i = 0; i < 4; ++i) {
    const Vec8d a = m[i], b = m[i + 4];
    m[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    m[i + 4] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i : {0, 1, 4, 5}) {
    const Vec8d a = m[i], b = m[i + 2];
    m[i] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
    m[i + 2] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i : {0, 2, 4, 6}) {
    const Vec8d a = m[i], b = m[i + 1];
    m[i] = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
    m[i + 1] = __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
  }
}

/// Loads eight numbers. Uses an output parameter because the ABI of a 64-byte vector return value depends on the
/// target processor.
void load8(const float* source, Vec8d& out) {
  typedef float Float8 __attribute__((vector_size(32)));
  Float8 x;
  std::memcpy(&x, source, sizeof x);
  out = __builtin_convertvector(x, Vec8d);
}
void load8(const double* source, Vec8d& out) { std::memcpy(&out, source, sizeof out); }

/// tile[d][t] = key[t][d] (+ residual[t][d]); tokens from `count` on are zero.
template <class Key>
void load_tile(const Key* keys, const float* residuals, int head_dim, int count, double* tile) {
  const auto value = [=](std::int64_t i) {
    return residuals == nullptr ? keys[i] : static_cast<double>(keys[i]) + residuals[i];
  };
  int d = 0;
  for (; count == kScoreTile && d + 8 <= head_dim; d += 8)
    for (int half = 0; half < kScoreTile; half += 8) {
      Vec8d block[8];
      for (int t = 0; t < 8; ++t) {
        const std::int64_t i = static_cast<std::int64_t>(half + t) * head_dim + d;
        load8(keys + i, block[t]);
        if (residuals == nullptr) continue;
        Vec8d residual;
        load8(residuals + i, residual);
        block[t] += residual;
      }
      transpose(block);
      for (int c = 0; c < 8; ++c) *reinterpret_cast<Vec8d*>(tile + (d + c) * kScoreTile + half) = block[c];
    }
  for (; d < head_dim; ++d)
    for (int t = 0; t < kScoreTile; ++t)
      tile[d * kScoreTile + t] = t < count ? value(static_cast<std::int64_t>(t) * head_dim + d) : 0;
}

template <int Rows>
void multiply(const double* queries, int head_dim, const double* tile, double (*out)[kScoreTile]) {
  Vec8d low[Rows] = {}, high[Rows] = {};
  for (int d = 0; d < head_dim; ++d) {
    const Vec8d a = *reinterpret_cast<const Vec8d*>(tile + d * kScoreTile);
    const Vec8d b = *reinterpret_cast<const Vec8d*>(tile + d * kScoreTile + 8);
    for (int r = 0; r < Rows; ++r) {
      const double q = queries[static_cast<std::int64_t>(r) * head_dim + d];
      low[r] += q * a;
      high[r] += q * b;
    }
  }
  for (int r = 0; r < Rows; ++r) {
    *reinterpret_cast<Vec8d*>(out[r]) = low[r];
    *reinterpret_cast<Vec8d*>(out[r] + 8) = high[r];
  }
}

void multiply_rows(int rows, const double* queries, int head_dim, const double* tile, double (*out)[kScoreTile]) {
  int r = 0;
  for (; r + kRowBlock <= rows; r += kRowBlock)
    multiply<kRowBlock>(queries + static_cast<std::int64_t>(r) * head_dim, head_dim, tile, out + r);
  for (; r + 4 <= rows; r += 4) multiply<4>(queries + static_cast<std::int64_t>(r) * head_dim, head_dim, tile, out + r);
  for (; r < rows; ++r) multiply<1>(queries + static_cast<std::int64_t>(r) * head_dim, head_dim, tile, out + r);
}

template <class Key>
void run(const float* queries, int rows, int head_dim, const Key* keys, const float* residuals, std::int64_t length,
         const ScoreTransform& transform, double* out, std::int64_t out_stride) {
  const std::vector<double> q(queries, queries + static_cast<std::int64_t>(rows) * head_dim);
  RowMatrix<double> scratch;
  scratch.resize(head_dim + rows, kScoreTile);
  double* tile = scratch.row(0);
  auto* products = reinterpret_cast<double(*)[kScoreTile]>(scratch.row(head_dim));
  for (std::int64_t j = 0; j < length; j += kScoreTile) {
    const int count = static_cast<int>(std::min<std::int64_t>(kScoreTile, length - j));
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

void scores_into(const float* queries, int rows, int head_dim, const double* keys, std::int64_t length,
                 const ScoreTransform& transform, double* out, std::int64_t out_stride) {
  run(queries, rows, head_dim, keys, nullptr, length, transform, out, out_stride);
}

void scores_of_sum_into(const float* queries, int rows, int head_dim, const float* keys, const float* residuals,
                        std::int64_t length, const ScoreTransform& transform, double* out, std::int64_t out_stride) {
  run(queries, rows, head_dim, keys, residuals, length, transform, out, out_stride);
}

}  // namespace attest
