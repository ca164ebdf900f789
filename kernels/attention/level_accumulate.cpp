// Per-level online-softmax sums of all rows of a KV head, value tile by value tile, and their prefix merge.
#include "kernels/attention/level_accumulate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Core>

namespace attest {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kTile = 64;  // tokens whose values, in double, stay in the cache while all rows read them
constexpr int kLanes = 64;          // value channels whose sums stay in registers over a run of equal levels

/// A row's online-softmax state, one per level.
struct LevelSums {
  std::vector<double> shift;  ///< [S + 1] maximum of s' per level; +inf for tokens that no setting keeps: they weigh 0
  std::vector<double> sum;    ///< [S]
  double* value = nullptr;    ///< [S, padded Dv]
};

template <int Lanes>
void add_lanes(const double* weights, const double* values, std::int64_t count, std::int64_t stride, double* sum) {
  typedef double Vec8 __attribute__((vector_size(64), aligned(64)));
  Vec8 lanes[Lanes / 8];
  for (int i = 0; i < Lanes / 8; ++i) lanes[i] = reinterpret_cast<const Vec8*>(sum)[i];
  for (std::int64_t t = 0; t < count; ++t) {
    const double w = weights[t];
    const auto* v = reinterpret_cast<const Vec8*>(values + t * stride);
    for (int i = 0; i < Lanes / 8; ++i) lanes[i] += w * v[i];
  }
  for (int i = 0; i < Lanes / 8; ++i) reinterpret_cast<Vec8*>(sum)[i] = lanes[i];
}

/// sum[d] += sum_t weights[t] * values[t][d] over `stride` channels, a multiple of 8.
void add_weighted(const double* weights, const double* values, std::int64_t count, std::int64_t stride, double* sum) {
  std::int64_t d = 0;
  for (; d + kLanes <= stride; d += kLanes) add_lanes<kLanes>(weights, values + d, count, stride, sum + d);
  for (; d < stride; d += 8) add_lanes<8>(weights, values + d, count, stride, sum + d);
}

/// One tile of values in double, rows padded with zeros.
void load_tile(const float* values, std::int64_t count, int value_dim, RowMatrix<double>& tile) {
  for (std::int64_t t = 0; t < count; ++t) {
    double* row = tile.row(t);
    for (int d = 0; d < value_dim; ++d) row[d] = values[t * value_dim + d];
    for (std::int64_t d = value_dim; d < tile.stride(); ++d) row[d] = 0;
  }
}

void find_maxima(std::span<const double> scores, std::span<const Level> levels, std::vector<double>& shift) {
  std::fill(shift.begin(), shift.end(), kNone);
  for (std::size_t j = 0; j < scores.size();) {
    const Level level = levels[j];
    double best = kNone;
    for (; j < scores.size() && levels[j] == level; ++j) best = std::max(best, scores[j]);
    shift[level] = std::max(shift[level], best);
  }
  shift.back() = -kNone;
}

/// Adds a row's tokens [begin, begin + count) of the tile; those before `split` read the approximate values.
void add_tile(const double* scores, const Level* levels, std::int64_t count, std::int64_t split, const RowMatrix<double>& exact,
              const RowMatrix<double>& approximate, LevelSums& sums) {
  alignas(64) double weights[kTile];
  for (std::int64_t t = 0; t < count; ++t) weights[t] = scores[t] - sums.shift[levels[t]];
  Eigen::Map<Eigen::ArrayXd, Eigen::Aligned64> w(weights, count);
  w = w.exp();
  const std::size_t settings = sums.sum.size();
  const std::int64_t stride = exact.stride();
  for (std::int64_t t = 0; t < count;) {
    const Level level = levels[t];
    const std::int64_t limit = t < split ? std::min(split, count) : count;
    std::int64_t end = t + 1;
    while (end < limit && levels[end] == level) ++end;
    if (level < settings) {
      for (std::int64_t i = t; i < end; ++i) sums.sum[level] += weights[i];
      add_weighted(weights + t, (t < split ? approximate : exact).row(t), end - t, stride,
                   sums.value + level * stride);
    }
    t = end;
  }
}

/// The online-softmax merge of levels 0..i into setting i.
void merge_prefix(const LevelSums& sums, std::int64_t stride, int value_dim, SettingOutputs& out) {
  std::vector<double> value(static_cast<std::size_t>(value_dim), 0.0);
  double max = kNone, sum = 0;
  for (std::size_t i = 0; i < sums.sum.size(); ++i) {
    if (sums.sum[i] > 0) {
      const double merged = std::max(max, sums.shift[i]);
      const double keep = std::exp(max - merged), add = std::exp(sums.shift[i] - merged);
      const double* level = sums.value + static_cast<std::int64_t>(i) * stride;
      for (std::size_t d = 0; d < value.size(); ++d) value[d] = value[d] * keep + level[d] * add;
      sum = sum * keep + sums.sum[i] * add;
      max = merged;
    }
    out.lse[i] = sum > 0 ? max + std::log(sum) : kNone;
    for (std::size_t d = 0; d < value.size(); ++d) out.output[i * value.size() + d] = sum > 0 ? value[d] / sum : 0;
  }
}

}  // namespace

void accumulate_settings(const KvHead& head, const RowMatrix<double>& scores, const RowMatrix<Level>& levels,
                         const ApproximateValues& approximate, int num_settings, std::vector<SettingOutputs>& out) {
  const auto settings = static_cast<std::size_t>(num_settings), dim = static_cast<std::size_t>(head.value_dim);
  RowMatrix<double> exact_tile, approximate_tile, value_sums;
  exact_tile.resize(kTile, head.value_dim);
  approximate_tile.resize(approximate.values == nullptr ? 0 : kTile, head.value_dim);
  const std::int64_t stride = exact_tile.stride();
  const int rows = head.rows();
  std::vector<LevelSums> sums(static_cast<std::size_t>(rows));
  value_sums.resize(static_cast<std::int64_t>(rows) * num_settings, head.value_dim);
  std::fill_n(value_sums.row(0), value_sums.rows() * stride, 0.0);
  for (int r = 0; r < rows; ++r) {
    LevelSums& row = sums[static_cast<std::size_t>(r)];
    row.shift.resize(settings + 1);
    row.sum.assign(settings, 0.0);
    row.value = value_sums.row(static_cast<std::int64_t>(r) * num_settings);
    const std::int64_t visible = head.row_length(r);
    find_maxima(scores.row(r, visible), levels.row(r, visible), row.shift);
  }
  for (std::int64_t begin = 0; begin < head.length; begin += kTile) {
    const std::int64_t tokens = std::min(kTile, head.length - begin);
    load_tile(head.values + begin * head.value_dim, tokens, head.value_dim, exact_tile);
    if (approximate.values != nullptr) load_tile(approximate.values + begin * head.value_dim, tokens, head.value_dim, approximate_tile);
    for (int r = 0; r < rows; ++r) {
      const std::int64_t count = std::min(tokens, head.row_length(r) - begin);
      if (count <= 0) continue;
      const std::int64_t split =
          approximate.values == nullptr ? 0 : approximate.count[static_cast<std::size_t>(r / head.group)] - begin;
      add_tile(scores.row(r) + begin, levels.row(r) + begin, count, split, exact_tile, approximate_tile, sums[static_cast<std::size_t>(r)]);
    }
  }
  out.resize(static_cast<std::size_t>(rows));
  for (int r = 0; r < rows; ++r) {
    SettingOutputs& row = out[static_cast<std::size_t>(r)];
    row.num_settings = num_settings;
    row.value_dim = head.value_dim;
    row.output.resize(settings * dim);
    row.lse.resize(settings);
    merge_prefix(sums[static_cast<std::size_t>(r)], stride, head.value_dim, row);
  }
}

}  // namespace attest
