// Random inputs for sweeps over settings on the device (scores and levels of the rows), and plain weighted sums over
// chosen tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/level_sums_cuda.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {

/// How many consecutive tokens of a row have the same level.
enum class Runs {
  all,      ///< levels are null
  blocks,   ///< 128 tokens
  pages,    ///< 16 tokens
  any,      ///< 1 to 40 tokens
  tokens,   ///< one token; equal neighbours only by chance
  mixture,  ///< neighbouring rows use different kinds; some rows keep nothing
};
inline constexpr Runs kAllRuns[] = {Runs::all, Runs::blocks, Runs::pages, Runs::any, Runs::tokens, Runs::mixture};
inline constexpr const char* kRunNames[] = {"all", "blocks", "pages", "any", "tokens", "mixture"};
inline const char* name_of(Runs runs) { return kRunNames[static_cast<int>(runs)]; }

/// One row's levels in 0..S for S settings. Level S: kept at no setting. With more than two settings no token has level
/// 1, so that setting 1 adds none.
inline std::vector<Level> random_levels(int length, int settings, Runs runs, Random& random) {
  std::vector<Level> levels;
  while (static_cast<int>(levels.size()) < length) {
    const int count = runs == Runs::blocks  ? 128
                      : runs == Runs::pages ? 16
                      : runs == Runs::any   ? 1 + static_cast<int>(random.below(40))
                                            : 1;
    const auto level = static_cast<Level>(random.below(settings + 1));
    levels.insert(levels.end(), static_cast<std::size_t>(count), level == 1 && settings > 2 ? Level{2} : level);
  }
  levels.resize(static_cast<std::size_t>(length));
  return levels;
}

/// The host's copy of a SweepView.
struct DeviceSweep {
  Rows<float> scores;
  Rows<Level> levels;  ///< empty: all 0
  SweepView view;

  double score(int r, int j) const {
    return static_cast<double>(scores[static_cast<std::size_t>(r)][static_cast<std::size_t>(j)]);
  }
  int level(int r, int j) const {
    return levels.empty() ? 0 : levels[static_cast<std::size_t>(r)][static_cast<std::size_t>(j)];
  }
  /// Tokens in [begin, end) of a row that have the level.
  std::vector<int> tokens_at(int r, int level_wanted, int begin, int end) const {
    std::vector<int> tokens;
    for (int j = begin; j < end; ++j)
      if (level(r, j) == level_wanted) tokens.push_back(j);
    return tokens;
  }
};

inline void upload_sweep(const DeviceLayer& on, int settings, DeviceSweep& sweep, Gpu& gpu) {
  sweep.view.scores = gpu.upload_rows(sweep.scores, on.rows.stride).items;
  if (!sweep.levels.empty()) sweep.view.levels = gpu.upload_rows(sweep.levels, on.rows.stride).items;
  sweep.view.num_settings = settings;
}

inline DeviceSweep random_sweep(const DeviceLayer& on, int settings, Runs runs, double spread, Gpu& gpu) {
  Random random(static_cast<std::uint64_t>(settings * 100 + static_cast<int>(runs)));
  DeviceSweep sweep;
  for (int r = 0; r < on.rows.num_rows; ++r) {
    sweep.scores.emplace_back();
    for (int j = 0; j < on.length(r); ++j) sweep.scores.back().push_back(static_cast<float>(spread * random.normal()));
    if (runs == Runs::all) continue;
    const Runs own = runs == Runs::mixture ? kAllRuns[1 + r % 4] : runs;
    sweep.levels.push_back(random_levels(on.length(r), settings, own, random));
    if (runs == Runs::mixture && r % 7 == 6)
      sweep.levels.back().assign(sweep.levels.back().size(), static_cast<Level>(settings));
  }
  upload_sweep(on, settings, sweep, gpu);
  return sweep;
}

/// Relative error of the weight exp(x), where x <= 0 is a score minus the largest score. __expf is off by 2 + 1.2 |x|
/// units of 2^-23, and x itself is a rounded difference.
inline double weight_error(double x) { return 0x1p-23 * (3 + 2 * std::fabs(x)); }
/// Weights this small may be flushed to 0.
inline constexpr double kVanishing = 0x1p-110;

struct PlainLevelSum {
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double error = 0;  ///< bound on the error of float32 weights
};

inline PlainLevelSum plain_level_sum(const DeviceSweep& sweep, int r, const std::vector<int>& tokens) {
  PlainLevelSum out;
  for (int j : tokens) out.max = std::max(out.max, sweep.score(r, j));
  for (int j : tokens) {
    const double x = sweep.score(r, j) - out.max;
    out.sum += std::exp(x);
    out.error += std::exp(x) * weight_error(x) + kVanishing;
  }
  return out;
}

/// Per channel: the sum of exp(s - max) v, the sum of exp(s - max) |v|, and the error bound of float32 weights.
struct PlainValues {
  Row sum, magnitude, error;
};

/// value(j, d): channel d of the value of token j.
template <class Value>
PlainValues plain_values(const DeviceSweep& sweep, int r, const std::vector<int>& tokens, double max, int dim,
                         Value&& value) {
  const auto zeros = Row(static_cast<std::size_t>(dim), 0.0);
  PlainValues out{zeros, zeros, zeros};
  for (int j : tokens) {
    const double x = sweep.score(r, j) - max, weight = std::exp(x);
    for (int d = 0; d < dim; ++d) {
      const auto at = static_cast<std::size_t>(d);
      const double v = value(j, d);
      out.sum[at] += weight * v;
      out.magnitude[at] += weight * std::fabs(v);
      out.error[at] += (weight * weight_error(x) + kVanishing) * std::fabs(v);
    }
  }
  return out;
}

/// Level sums computed plainly, as input of the kernels.
struct PlainLevels {
  Rows<float> max;
  Rows<double> sum;
  LevelSums on_device;
};

inline PlainLevels plain_levels(const DeviceLayer& on, const DeviceSweep& sweep, Gpu& gpu) {
  PlainLevels out;
  for (int r = 0; r < on.rows.num_rows; ++r) {
    out.max.emplace_back();
    out.sum.emplace_back();
    for (int level = 0; level < sweep.view.num_settings; ++level) {
      const PlainLevelSum own = plain_level_sum(sweep, r, sweep.tokens_at(r, level, 0, on.length(r)));
      out.max.back().push_back(static_cast<float>(own.max));
      out.sum.back().push_back(own.sum);
    }
  }
  out.on_device = {gpu.upload_rows(out.max, sweep.view.num_settings).items,
                   gpu.upload_rows(out.sum, sweep.view.num_settings).items};
  return out;
}

/// The host's copy of a pass's sums per (range of tokens, row, level). Sums are undefined where `present` is 0.
struct HostPartials {
  LevelPartials partials;
  int rows = 0, settings = 0;
  std::vector<float> sums;
  std::vector<std::uint8_t> present;

  HostPartials(const LevelPartials& of, int num_rows, int num_settings, const Gpu& gpu)
      : partials(of), rows(num_rows), settings(num_settings) {
    present = gpu.download(of.present, static_cast<std::size_t>(of.num_splits * rows * settings));
    sums = gpu.download(of.sums, present.size() * static_cast<std::size_t>(of.pitch));
  }
  std::size_t cell(int split, int row, int level) const {
    return (static_cast<std::size_t>(split) * static_cast<std::size_t>(rows) + static_cast<std::size_t>(row)) *
               static_cast<std::size_t>(settings) +
           static_cast<std::size_t>(level);
  }
  bool has(int split, int row, int level) const { return present[cell(split, row, level)] != 0; }
  double value(int split, int row, int level, int channel) const {
    return static_cast<double>(
        sums[cell(split, row, level) * static_cast<std::size_t>(partials.pitch) + static_cast<std::size_t>(channel)]);
  }
};

}  // namespace attest::test
