// Code shared by all selectors: ranking of scores, ascending grids, Selection::reset() and common options.
#include "kernels/selectors/selector.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/rank/sort_descending.h"

namespace attest {

void RankedScores::rank(std::span<const std::int64_t> covered, int group) {
  if (ranked) return;
  order.resize(scores.rows(), scores.columns());
  for (std::int64_t r = 0; r < scores.rows(); ++r) {
    const std::int64_t count = covered[static_cast<std::size_t>(r / group)];
    sort_descending(std::as_const(scores).row(r, count), order.row(r, count));
  }
  ranked = true;
}

AscendingGrid ascending(const Selector& selector, std::span<const Setting> grid, std::int64_t visible) {
  std::vector<double> resolved;
  for (const Setting& setting : grid) resolved.push_back(selector.resolve(setting, visible));
  AscendingGrid out;
  out.given_index.resize(grid.size());
  std::iota(out.given_index.begin(), out.given_index.end(), 0);
  const auto value = [&](int i) { return resolved[static_cast<std::size_t>(i)]; };
  std::stable_sort(out.given_index.begin(), out.given_index.end(), [&](int a, int b) { return value(a) < value(b); });
  for (int i : out.given_index) out.values.push_back(value(i));
  return out;
}

void Selection::reset(const KvHead& head, std::span<const MetricInfo> own, int num_settings) {
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
  own_estimate.ranked = false;
  estimate = nullptr;
  covered.assign(head.visible.begin(), head.visible.end());
  levels.resize(head.rows(), head.length);
  exact = false;
  read_scores = nullptr;
  approximate_values.clear();
  num_approximate.assign(static_cast<std::size_t>(head.num_queries), 0);
  mean_value_share.resize(0, 0);
  io.assign(static_cast<std::size_t>(head.num_queries), {});
  own_metrics.resize(own.size());
  for (std::size_t m = 0; m < own.size(); ++m) {
    RowMatrix<double>& values = own_metrics[m];
    values.resize(head.rows(), own[m].axes == MetricAxes::query_head_setting ? num_settings : 1);
    for (std::int64_t r = 0; r < values.rows(); ++r) std::fill_n(values.row(r), values.columns(), kUndefined);
  }
}

double Selector::natural_delta(double, const ScoreTransform&) const { return std::numeric_limits<double>::quiet_NaN(); }

void Selector::finish(OptionReader& reader, int default_dense_layers) {
  dense_layers_ = reader.integer("dense_layers", default_dense_layers, 0, 1 << 20,
                                 {"layers at the start of the model with exact attention", "layers"});
  finish(reader);
}

void Selector::finish(OptionReader& reader) {
  reader.finish();
  name_ = reader.selector();
  options_ = reader.resolved();
}

}  // namespace attest
