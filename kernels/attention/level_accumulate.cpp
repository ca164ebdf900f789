// Per-level online-softmax sums of one row and their prefix merge.
#include "kernels/attention/level_accumulate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Core>

namespace attest {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kTile = 512;  // tokens whose weights are computed before their values are read
constexpr int kLanes = 32;           // value channels that stay in registers over a run of equal levels

/// sum[d] += sum_t weights[t] * values[t][d]
void add_weighted(const double* weights, const float* values, std::int64_t count, int value_dim, double* sum) {
  int d = 0;
  for (; d + kLanes <= value_dim; d += kLanes) {
    double lanes[kLanes];
    for (int i = 0; i < kLanes; ++i) lanes[i] = sum[d + i];
    for (std::int64_t t = 0; t < count; ++t) {
      const double w = weights[t];
      const float* v = values + t * value_dim + d;
      for (int i = 0; i < kLanes; ++i) lanes[i] += w * v[i];
    }
    for (int i = 0; i < kLanes; ++i) sum[d + i] = lanes[i];
  }
  for (; d < value_dim; ++d)
    for (std::int64_t t = 0; t < count; ++t) sum[d] += weights[t] * values[t * value_dim + d];
}

struct LevelSums {
  std::vector<double> max, sum, value;  // [S], [S], [S, Dv]

  LevelSums(int levels, int value_dim) : max(levels, kNone), sum(levels, 0.0), value(static_cast<std::size_t>(levels) * value_dim, 0.0) {}
};

void find_maxima(std::span<const double> scores, std::span<const Level> levels, int num_settings, std::vector<double>& max) {
  for (std::size_t j = 0; j < scores.size();) {
    const Level level = levels[j];
    double best = kNone;
    for (; j < scores.size() && levels[j] == level; ++j) best = std::max(best, scores[j]);
    if (level < num_settings) max[level] = std::max(max[level], best);
  }
}

/// Adds tokens [begin, end), which share a level, splitting where approximate values end.
void add_run(const double* weights, std::int64_t begin, std::int64_t end, const ValueRows& values, double* sum) {
  const std::int64_t split = std::clamp(values.approximate == nullptr ? 0 : values.num_approximate, begin, end);
  if (split > begin)
    add_weighted(weights, values.approximate + begin * values.value_dim, split - begin, values.value_dim, sum);
  if (end > split)
    add_weighted(weights + (split - begin), values.exact + split * values.value_dim, end - split, values.value_dim, sum);
}

void accumulate(std::span<const double> scores, std::span<const Level> levels, const ValueRows& values, int num_settings,
                LevelSums& sums) {
  find_maxima(scores, levels, num_settings, sums.max);
  std::vector<double> shift = sums.max;
  shift.push_back(-kNone);  // a token that no setting keeps weighs exp(-inf) = 0
  const auto length = static_cast<std::int64_t>(scores.size());
  alignas(64) double weights[kTile];
  for (std::int64_t tile = 0; tile < length; tile += kTile) {
    const std::int64_t end = std::min(length, tile + kTile);
    const Level* level = levels.data() + tile;
    for (std::int64_t t = 0; t < end - tile; ++t) weights[t] = scores[static_cast<std::size_t>(tile + t)] - shift[level[t]];
    Eigen::Map<Eigen::ArrayXd, Eigen::Aligned64> w(weights, end - tile);
    w = w.exp();
    for (std::int64_t j = tile; j < end;) {
      const Level here = level[j - tile];
      std::int64_t run_end = j + 1;
      while (run_end < end && level[run_end - tile] == here) ++run_end;
      if (here < num_settings) {
        for (std::int64_t t = j; t < run_end; ++t) sums.sum[here] += weights[t - tile];
        add_run(weights + (j - tile), j, run_end, values,
                sums.value.data() + static_cast<std::size_t>(here) * static_cast<std::size_t>(values.value_dim));
      }
      j = run_end;
    }
  }
}

/// The online-softmax merge of levels 0..i into setting i.
void merge_prefix(const LevelSums& sums, int num_settings, int value_dim, SettingOutputs& out) {
  std::vector<double> value(static_cast<std::size_t>(value_dim), 0.0);
  double max = kNone, sum = 0;
  for (int i = 0; i < num_settings; ++i) {
    if (sums.sum[i] > 0) {
      const double merged = std::max(max, sums.max[i]);
      const double keep = std::exp(max - merged), add = std::exp(sums.max[i] - merged);
      const double* level = sums.value.data() + static_cast<std::size_t>(i) * value_dim;
      for (int d = 0; d < value_dim; ++d) value[d] = value[d] * keep + level[d] * add;
      sum = sum * keep + sums.sum[i] * add;
      max = merged;
    }
    out.lse[i] = sum > 0 ? max + std::log(sum) : kNone;
    for (int d = 0; d < value_dim; ++d) out.output[static_cast<std::size_t>(i) * value_dim + d] = sum > 0 ? value[d] / sum : 0;
  }
}

}  // namespace

void accumulate_settings(std::span<const double> scores, std::span<const Level> levels, const ValueRows& values,
                         int num_settings, SettingOutputs& out) {
  out.num_settings = num_settings;
  out.value_dim = values.value_dim;
  out.output.resize(static_cast<std::size_t>(num_settings) * values.value_dim);
  out.lse.resize(static_cast<std::size_t>(num_settings));
  LevelSums sums(num_settings, values.value_dim);
  accumulate(scores, levels, values, num_settings, sums);
  merge_prefix(sums, num_settings, values.value_dim, out);
}

}  // namespace attest
