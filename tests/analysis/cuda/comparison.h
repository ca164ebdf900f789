// Compares two results of one layer metric by metric, within tolerances or bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "analysis/results/layer_results.h"

namespace attest::cuda_test {

// Scores are summed in float32 on the device and in double on the CPU. A score of magnitude 30 differs by about 1e-5,
// and so do log-sum-exps, masses and outputs.
constexpr double kTolerance = 2e-4;
// For scores in the thousands, where the resolution of float32 is coarser.
constexpr double kHugeTolerance = 1e-3;
// Rank correlation changes with every pair of scores that float32 makes equal or swaps.
constexpr double kRankTolerance = 1e-3;
// Largest share of cells whose kept set may differ, because a score is within rounding error of its threshold.
constexpr double kMaxFlipped = 0.005;
// Largest share of cells beyond the tolerance, for metrics that jump when a score crosses a threshold.
constexpr double kMaxJumped = 0.02;

inline bool is_rank(const std::string& metric) { return metric.starts_with("spearman"); }
inline bool jumps(const std::string& metric) {
  return metric.starts_with("salient_") || metric.starts_with("missed_") || metric.starts_with("scan_error_") ||
         metric.starts_with("span_keep") || metric.starts_with("span_lost") || metric.starts_with("span_token") ||
         metric.starts_with("dropped_gap");
}

/// Compares two results metric by metric.
class Comparison {
 public:
  /// `group`: query heads per KV head.
  Comparison(double tolerance, int group) : tolerance_(tolerance), group_(static_cast<std::size_t>(group)) {}

  void add(const std::string& label, std::size_t settings, const std::vector<MetricValues>& expected,
           const std::vector<MetricValues>& got) {
    ASSERT_EQ(expected.size(), got.size());
    num_settings_[label] = settings;
    std::vector<bool> flipped;
    const std::vector<float>* output_errors = nullptr;
    for (std::size_t m = 0; m < expected.size(); ++m) {
      if (expected[m].name == "keep_ratio") flipped = differing(expected[m].values, got[m].values);
      if (expected[m].name == "output_error") output_errors = &expected[m].values;
    }
    for (bool f : flipped) flipped_ += f, kept_sets_ += 1;
    std::size_t of_layer = 0;  // cells of a query and setting
    for (const MetricValues& m : expected)
      if (m.name == "recall_layer") of_layer = m.values.size();
    for (std::size_t m = 0; m < expected.size(); ++m) {
      ASSERT_EQ(expected[m].name, got[m].name);
      ASSERT_EQ(expected[m].values.size(), got[m].values.size());
      // recall_layer includes heads whose kept sets may differ; recall is compared per head.
      if (expected[m].name == "recall_layer") continue;
      compare(label, expected[m], got[m], flipped, of_layer, output_errors);
    }
  }

  void finish() const {
    ASSERT_FALSE(metrics_.empty());
    EXPECT_LE(static_cast<double>(flipped_), 2 + kMaxFlipped * static_cast<double>(kept_sets_))
        << "kept sets that differ, of " << kept_sets_;
    for (const auto& [name, metric] : metrics_) {
      const double maximum = jumps(name) ? kMaxJumped : 0;
      EXPECT_LE(static_cast<double>(metric.beyond), (maximum > 0 ? 3 : 0) + maximum * static_cast<double>(metric.cells))
          << name << ": of " << metric.cells << " cells; worst " << metric.worst << " in " << metric.where;
    }
  }

  /// The largest difference of each metric, for the log.
  std::string text() const {
    std::string out = std::to_string(flipped_) + " of " + std::to_string(kept_sets_) + " kept sets differ;";
    char number[32];
    for (const auto& [name, metric] : metrics_) {
      std::snprintf(number, sizeof number, " %.1e", metric.worst);
      out += " " + name + number +
             (metric.beyond > 0 ? "(" + std::to_string(metric.beyond) + "/" + std::to_string(metric.cells) + ")" : "");
    }
    return out;
  }

 private:
  struct Metric {
    double worst = 0;
    std::string where;
    std::size_t beyond = 0, cells = 0;
  };

  static std::vector<bool> differing(const std::vector<float>& a, const std::vector<float>& b) {
    std::vector<bool> out;
    for (std::size_t i = 0; i < a.size(); ++i) out.push_back(!(std::fabs(a[i] - b[i]) <= 1e-6));
    return out;
  }

  void compare(const std::string& label, const MetricValues& expected, const MetricValues& got,
               const std::vector<bool>& flipped, std::size_t of_layer, const std::vector<float>* output_errors) {
    Metric& metric = metrics_[expected.name];
    const double tolerance = is_rank(expected.name) ? kRankTolerance : tolerance_;
    const std::size_t settings = num_settings_.at(label);
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      if (expected.axes == MetricAxes::query_head_setting && flipped[i]) continue;
      if (expected.name.starts_with("span_lost") || expected.name.starts_with("span_token"))
        if (any_of_layer(flipped, i / (expected.values.size() / of_layer), settings, flipped.size() / of_layer))
          continue;
      if (expected.name == "io_ratio" && any_of_group(flipped, i, settings)) continue;
      const double e = expected.values[i], g = got.values[i];
      ++metric.cells;
      if ((std::isnan(e) && std::isnan(g)) || e == g) continue;
      double unit = std::max(1.0, std::fabs(e));
      // It is output_error times the head's weight and the norm of its output: that error's tolerance grows with them.
      if (expected.name == "weighted_error_head" && output_errors != nullptr && (*output_errors)[i] > 0)
        unit = std::max(unit, e / static_cast<double>((*output_errors)[i]));
      const double off = std::fabs(e - g) / unit;
      if (!(off <= metric.worst)) {
        metric.worst = std::isnan(off) ? INFINITY : off;
        metric.where = label + "[" + std::to_string(i) + "]: " + std::to_string(g) + ", expected " + std::to_string(e);
      }
      if (!(off <= tolerance)) ++metric.beyond;
    }
  }

  /// Whether any head of the cell's group has a different kept set: io_ratio depends on the whole group.
  bool any_of_group(const std::vector<bool>& flipped, std::size_t cell, std::size_t settings) const {
    const std::size_t first = cell / settings / group_ * group_;
    for (std::size_t h = first; h < first + group_; ++h)
      if (flipped[h * settings + cell % settings]) return true;
    return false;
  }

  /// Whether any of the layer's heads has a different kept set, for a query and setting.
  static bool any_of_layer(const std::vector<bool>& flipped, std::size_t cell, std::size_t settings,
                           std::size_t heads) {
    for (std::size_t h = 0; h < heads; ++h)
      if (flipped[(cell / settings * heads + h) * settings + cell % settings]) return true;
    return false;
  }

  double tolerance_;
  std::size_t group_;
  std::map<std::string, std::size_t> num_settings_;
  std::map<std::string, Metric> metrics_;
  std::size_t flipped_ = 0, kept_sets_ = 0;
};

inline bool same_bits(const std::vector<MetricValues>& a, const std::vector<MetricValues>& b) {
  if (a.size() != b.size() || a.empty()) return false;
  for (std::size_t m = 0; m < a.size(); ++m)
    if (a[m].values.size() != b[m].values.size() ||
        std::memcmp(a[m].values.data(), b[m].values.data(), a[m].values.size() * sizeof(float)) != 0) {
      ADD_FAILURE() << a[m].name << " differs";
      return false;
    }
  return true;
}

inline void expect_same_bits(const LayerResults& a, const LayerResults& b) {
  EXPECT_TRUE(same_bits(a.scores, b.scores));
  ASSERT_EQ(a.selectors.size(), b.selectors.size());
  for (std::size_t s = 0; s < a.selectors.size(); ++s)
    EXPECT_TRUE(same_bits(a.selectors[s].metrics, b.selectors[s].metrics)) << "selector " << s;
}

}  // namespace attest::cuda_test
