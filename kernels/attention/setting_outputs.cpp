// Online-softmax sums per (row, level) of a KV head, one value tile at a time, and the prefix merge over levels.
#include "kernels/attention/setting_outputs.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/lane_sum.h"
#include "kernels/base/vec8.h"

namespace attest {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kValueTile =
    64;  // tokens per tile: its values in double stay in the cache while all rows read them

/// Online-softmax states of a row, one per level.
struct LevelState {
  std::vector<double> shift;  ///< [S + 1] maximum of s' per level; [S] is +inf, so tokens that no setting keeps weigh 0
  std::vector<double> sum;    ///< [S]
  double* value = nullptr;    ///< [S, padded Dv]
};

/// sums[r][d] += sum_t weights[r][t] * values[t][d] over 8 * Vectors channels. With more rows per block, each
/// loaded value is used more often. The order of an element's sum does not depend on the block size, so neither do its
/// bits.
template <int Rows, int Vectors>
void add_block(const double* const* weights, const double* values, std::int64_t count, std::int64_t stride,
               double* const* sums, std::int64_t channel) {
  Vec8d lanes[Rows][Vectors];
  for (int r = 0; r < Rows; ++r)
    for (int i = 0; i < Vectors; ++i) lanes[r][i] = reinterpret_cast<const Vec8d*>(sums[r] + channel)[i];
  for (std::int64_t t = 0; t < count; ++t) {
    const auto* v = reinterpret_cast<const Vec8d*>(values + t * stride + channel);
    for (int r = 0; r < Rows; ++r) {
      const double w = weights[r][t];
      for (int i = 0; i < Vectors; ++i) lanes[r][i] += w * v[i];
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int i = 0; i < Vectors; ++i) reinterpret_cast<Vec8d*>(sums[r] + channel)[i] = lanes[r][i];
}

/// add_block() over all `stride` channels, a multiple of 8.
template <int Rows>
void add_weighted(const double* const* weights, const double* values, std::int64_t count, std::int64_t stride,
                  double* const* sums) {
  constexpr int kVectors = Rows == 1 ? 8 : 4;  // as many sums as fit in registers
  std::int64_t d = 0;
  for (; d + 8 * kVectors <= stride; d += 8 * kVectors)
    add_block<Rows, kVectors>(weights, values, count, stride, sums, d);
  for (; d < stride; d += 8) add_block<Rows, 1>(weights, values, count, stride, sums, d);
}

/// Converts one tile of values to double; rows are padded with zeros.
void load_tile(const float* values, std::int64_t count, int value_dim, RowMatrix<double>& tile) {
  for (std::int64_t t = 0; t < count; ++t) {
    double* row = tile.row(t);
    for (int d = 0; d < value_dim; ++d) row[d] = values[t * value_dim + d];
    for (std::int64_t d = value_dim; d < tile.stride(); ++d) row[d] = 0;
  }
}

/// Whether levels[0 .. count) are all equal. No early exit, so that the loop vectorises.
bool one_level(const Level* levels, std::int64_t count) {
  unsigned difference = 0;
  for (std::int64_t t = 0; t < count; ++t) difference |= static_cast<unsigned>(levels[t] ^ levels[0]);
  return difference == 0;
}

void find_maxima(const double* scores, const Level* levels, std::int64_t count, std::vector<double>& shift) {
  std::fill(shift.begin(), shift.end(), kNone);
  for (std::int64_t begin = 0; begin < count; begin += kValueTile) {
    const std::int64_t end = std::min(count, begin + kValueTile);
    if (one_level(levels + begin, end - begin)) {
      double& max = shift[levels[begin]];
      max = lane_max(static_cast<std::size_t>(end - begin), max,
                     [=](std::size_t t) { return scores[begin + static_cast<std::int64_t>(t)]; });
    } else {
      for (std::int64_t t = begin; t < end; ++t) shift[levels[t]] = std::max(shift[levels[t]], scores[t]);
    }
  }
  shift.back() = -kNone;
}

/// Rows whose tokens of a full tile all have one level: their sums are one matrix product.
struct WholeTile {
  std::vector<const double*> weights;
  std::vector<double*> sums;

  void add(const RowMatrix<double>& values) {
    std::size_t r = 0;
    for (; r + 4 <= sums.size(); r += 4)
      add_weighted<4>(weights.data() + r, values.row(0), kValueTile, values.stride(), sums.data() + r);
    for (; r < sums.size(); ++r)
      add_weighted<1>(weights.data() + r, values.row(0), kValueTile, values.stride(), sums.data() + r);
    weights.clear();
    sums.clear();
  }
};

/// Computes the weights exp(s' - shift) of a row's tokens in a tile, and adds them to the sums of their levels.
/// uniform: all tokens have the same level.
void weigh(const double* scores, const Level* levels, std::int64_t count, bool uniform, LevelState& sums,
           double* weights) {
  Eigen::Map<Eigen::ArrayXd, Eigen::Aligned64> w(weights, count);
  if (uniform) {
    w = (Eigen::Map<const Eigen::ArrayXd>(scores, count) - sums.shift[*levels]).exp();
    if (*levels < sums.sum.size())
      sums.sum[*levels] += lane_sum(static_cast<std::size_t>(count), [=](std::size_t t) { return weights[t]; });
    return;
  }
  for (std::int64_t t = 0; t < count; ++t) weights[t] = scores[t] - sums.shift[levels[t]];
  w = w.exp();
  for (std::int64_t t = 0; t < count; ++t)
    if (levels[t] < sums.sum.size()) sums.sum[levels[t]] += weights[t];
}

/// Adds a row's weighted values of a tile, one run of equal levels at a time. Tokens before `split` use the approximate
/// values.
void add_runs(const double* weights, const Level* levels, std::int64_t count, std::int64_t split,
              const RowMatrix<double>& exact, const RowMatrix<double>& approximate, LevelState& sums) {
  for (std::int64_t t = 0; t < count;) {
    const Level level = levels[t];
    const std::int64_t limit = t < split ? std::min(split, count) : count;
    std::int64_t end = t + 1;
    while (end < limit && levels[end] == level) ++end;
    if (level < sums.sum.size()) {
      const double* of_run = weights + t;
      double* value = sums.value + level * exact.stride();
      add_weighted<1>(&of_run, (t < split ? approximate : exact).row(t), end - t, exact.stride(), &value);
    }
    t = end;
  }
}

/// Online-softmax merge: setting i gets levels 0 .. i.
void merge_prefix(const LevelState& sums, std::int64_t stride, int value_dim, SettingOutputs& out) {
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
  exact_tile.resize(kValueTile, head.value_dim);
  approximate_tile.resize(approximate.values != nullptr ? kValueTile : 0, head.value_dim);
  if (approximate.stored) std::fill_n(exact_tile.row(0), kValueTile * exact_tile.stride(), 0.0);  // the padding
  const std::int64_t stride = exact_tile.stride();
  const int rows = head.rows();
  std::vector<LevelState> sums(static_cast<std::size_t>(rows));
  value_sums.resize(static_cast<std::int64_t>(rows) * num_settings, head.value_dim);
  std::fill_n(value_sums.row(0), value_sums.rows() * stride, 0.0);
  for (int r = 0; r < rows; ++r) {
    LevelState& row = sums[static_cast<std::size_t>(r)];
    row.shift.resize(settings + 1);
    row.sum.assign(settings, 0.0);
    row.value = value_sums.row(static_cast<std::int64_t>(r) * num_settings);
    const std::int64_t visible = head.row_length(r);
    find_maxima(scores.row(r), levels.row(r), visible, row.shift);
  }
  RowMatrix<double> weights;
  weights.resize(rows, kValueTile);
  WholeTile whole_exact, whole_approximate;
  for (std::int64_t begin = 0; begin < head.length; begin += kValueTile) {
    head.throw_if_stopped();
    const std::int64_t tokens = std::min(kValueTile, head.length - begin);
    if (approximate.stored)
      approximate.stored(begin, tokens, exact_tile.row(0), exact_tile.stride());
    else
      load_tile(head.values + begin * head.value_dim, tokens, head.value_dim, exact_tile);
    if (approximate.values != nullptr)
      load_tile(approximate.values + begin * head.value_dim, tokens, head.value_dim, approximate_tile);
    for (int r = 0; r < rows; ++r) {
      const std::int64_t count = std::min(tokens, head.row_length(r) - begin);
      if (count <= 0) continue;
      LevelState& row = sums[static_cast<std::size_t>(r)];
      const Level* level = levels.row(r) + begin;
      const bool uniform = one_level(level, count);
      if (uniform && *level == settings) continue;  // no setting keeps these tokens
      weigh(scores.row(r) + begin, level, count, uniform, row, weights.row(r));
      const std::int64_t split =
          approximate.values == nullptr ? 0 : approximate.count[static_cast<std::size_t>(r / head.group)] - begin;
      if (!uniform || count < kValueTile || (split > 0 && split < kValueTile)) {
        add_runs(weights.row(r), level, count, split, exact_tile, approximate_tile, row);
      } else {
        WholeTile& whole = split <= 0 ? whole_exact : whole_approximate;
        whole.weights.push_back(weights.row(r));
        whole.sums.push_back(row.value + *level * stride);
      }
    }
    whole_exact.add(exact_tile);
    whole_approximate.add(approximate_tile);
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
