// Fits of a window, by adding keys from the newest on, and of a scale, on ever finer grids.
#include "analysis/audit/fits.h"

#include <fmt/core.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "dumps/base/error.h"
#include "kernels/attention/scores.h"

namespace attest {
namespace {

constexpr std::int64_t kTile = 256;

/// The dump's attention of one row, tile by tile.
class FittedRow {
 public:
  FittedRow(const AuditInput& input, const KvStorages& storages, const RowPlace& place, const std::atomic<bool>* stop)
      : layer_(input.layer),
        observed_(input.observed(place.query, place.head)),
        head_(input.layer, place.head / input.layer.shape.group(), storages),
        position_(input.layer.query_positions[static_cast<std::size_t>(place.query)]),
        stop_(stop) {
    if (!layer_.sinks.empty()) sink_ = layer_.sinks[static_cast<std::size_t>(place.head)];
    const std::vector<float> query = read_query(storages.keys, layer_, input.query(place.query, place.head));
    products_.resize(static_cast<std::size_t>(position_ + 1));
    std::vector<double> keys(static_cast<std::size_t>(kTile * layer_.shape.head_dim));
    for_tiles(0, [&](std::int64_t first, std::int64_t count) {
      head_.keys(first, count, keys.data());
      scores_into(query.data(), 1, layer_.shape.head_dim, keys.data(), count, ScoreTransform{1, 0},
                  products_.data() + first, count);
    });
  }

  std::int64_t position() const { return position_; }
  std::int64_t first_visible() const { return layer_.first_visible_key(position_); }
  std::int64_t value_dim() const { return layer_.shape.value_dim; }
  std::span<const float> observed() const { return observed_; }
  std::optional<double> sink() const { return sink_; }
  double score(std::int64_t token, double scale) const {
    return ScoreTransform{scale, layer_.logit_softcap}(products_[static_cast<std::size_t>(token)]);
  }
  /// [count, Dv]
  void values(std::int64_t first, std::int64_t count, double* out) const { head_.values(first, count, out); }

  /// Tiles of the tokens from `begin` to the row's own.
  template <class Visit>
  void for_tiles(std::int64_t begin, Visit visit) const {
    for (std::int64_t first = begin; first <= position_; first += kTile) {
      if (stop_ != nullptr && *stop_) throw Interrupted("interrupted");
      visit(first, std::min(kTile, position_ + 1 - first));
    }
  }

 private:
  const AttentionLayer& layer_;
  std::span<const float> observed_;
  StoredHead head_;
  std::int64_t position_;
  std::optional<double> sink_;
  const std::atomic<bool>* stop_;
  std::vector<double> products_;  ///< [position + 1] q.k
};

double distance(std::span<const float> observed, const double* sums, double total) {
  double squares = 0;
  for (std::size_t d = 0; d < observed.size(); ++d) {
    const double difference = observed[d] - sums[d] / total;
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

/// Distances of the observed output from that at each scale.
std::vector<double> distances_at(const FittedRow& row, std::span<const double> scales) {
  const auto columns = static_cast<Eigen::Index>(scales.size());
  const std::int64_t begin = row.first_visible();
  Eigen::VectorXd largest = Eigen::VectorXd::Constant(columns, row.sink().value_or(-INFINITY)), totals(columns);
  for (std::int64_t j = begin; j <= row.position(); ++j)
    for (Eigen::Index c = 0; c < columns; ++c)
      largest(c) = std::max(largest(c), row.score(j, scales[static_cast<std::size_t>(c)]));
  for (Eigen::Index c = 0; c < columns; ++c) totals(c) = row.sink() ? std::exp(*row.sink() - largest(c)) : 0;
  Eigen::MatrixXd sums = Eigen::MatrixXd::Zero(row.value_dim(), columns), values(row.value_dim(), kTile),
                  weights(kTile, columns);
  row.for_tiles(begin, [&](std::int64_t first, std::int64_t count) {
    row.values(first, count, values.data());
    for (Eigen::Index c = 0; c < columns; ++c)
      for (std::int64_t t = 0; t < count; ++t)
        weights(t, c) = std::exp(row.score(first + t, scales[static_cast<std::size_t>(c)]) - largest(c));
    totals += weights.topRows(count).colwise().sum().transpose();
    sums.noalias() += values.leftCols(count) * weights.topRows(count);
  });
  std::vector<double> distances;
  for (Eigen::Index c = 0; c < columns; ++c)
    distances.push_back(distance(row.observed(), sums.col(c).data(), totals(c)));
  return distances;
}

}  // namespace

std::optional<Hypothesis> fitted_window(const AuditInput& input, const KvStorages& storages, const RowPlace& place,
                                        const RoundingBound& bound, const std::atomic<bool>* stop) {
  const FittedRow row(input, storages, place, stop);
  const double scale = input.layer.softmax_scale;
  double largest = row.sink().value_or(-INFINITY);
  for (std::int64_t j = 0; j <= row.position(); ++j) largest = std::max(largest, row.score(j, scale));
  const auto dim = static_cast<std::size_t>(row.value_dim());
  std::vector<double> sums(dim, 0.0), values(static_cast<std::size_t>(kTile) * dim);
  double total = row.sink() ? std::exp(*row.sink() - largest) : 0, best = INFINITY;
  std::vector<double> distances(static_cast<std::size_t>(row.position() + 1));  // of windows 1, 2, ...
  std::int64_t window = 0;
  for (std::int64_t end = row.position() + 1; end > 0; end -= kTile) {
    if (stop != nullptr && *stop) throw Interrupted("interrupted");
    const std::int64_t first = std::max<std::int64_t>(0, end - kTile);
    row.values(first, end - first, values.data());
    for (std::int64_t j = end - 1; j >= first; --j) {
      const double weight = std::exp(row.score(j, scale) - largest);
      const double* value = values.data() + static_cast<std::size_t>(j - first) * dim;
      for (std::size_t d = 0; d < dim; ++d) sums[d] += weight * value[d];
      total += weight;
      const std::int64_t length = row.position() + 1 - j;
      const double far = total > 0 ? distance(row.observed(), sums.data(), total) : INFINITY;
      distances[static_cast<std::size_t>(length - 1)] = far;
      if (far < best) {
        best = far;
        window = length;
      }
    }
  }
  if (window == 0 || window == row.position() + 1 || window == input.layer.sliding_window) return std::nullopt;
  // Neighbouring lengths that are within rounding, too.
  double norm = 0;
  for (const float x : row.observed()) norm += static_cast<double>(x) * x;
  const double near = bound.roundings() * bound.unit() * std::sqrt(norm);
  std::int64_t least = window, most = window;
  while (least > 1 && distances[static_cast<std::size_t>(least - 2)] <= near) --least;
  while (most <= row.position() && distances[static_cast<std::size_t>(most - 1)] <= near) ++most;
  most = std::max(window, most - 1);
  const std::string own =
      input.layer.sliding_window > 0 ? std::to_string(input.layer.sliding_window) : "none";
  return window_hypothesis(input, storages, window,
                           fmt::format("a sliding window of {} tokens instead of {} (fitted to one row{})", window, own,
                                       least < most ? fmt::format(", which {} to {} explain as well", least, most) : ""));
}

std::optional<Hypothesis> fitted_scale(const AuditInput& input, const KvStorages& storages, const RowPlace& place,
                                       const std::atomic<bool>* stop) {
  const FittedRow row(input, storages, place, stop);
  constexpr int kPoints = 33;
  const double own = input.layer.softmax_scale;
  double centre = std::log(own), reach = std::log(64.0);
  for (int step = 0; step < 5; ++step, reach /= kPoints / 4.0) {
    std::vector<double> scales;
    for (int i = 0; i < kPoints; ++i) scales.push_back(std::exp(centre + reach * (2.0 * i / (kPoints - 1) - 1)));
    const std::vector<double> distances = distances_at(row, scales);
    const auto nearest = std::ranges::min_element(distances);
    if (!std::isfinite(*nearest)) return std::nullopt;
    centre = std::log(scales[static_cast<std::size_t>(nearest - distances.begin())]);
  }
  if (std::fabs(centre - std::log(own)) < 1e-3) return std::nullopt;  // nothing else comes nearer
  return scale_hypothesis(input, storages, std::exp(centre),
                          fmt::format("another softmax scale: {:.6g} (fitted to one row) instead of {:.6g}",
                                      std::exp(centre), own));
}

}  // namespace attest
