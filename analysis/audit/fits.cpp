// Fits of a window, by adding keys from the newest on, and of a scale, on ever finer grids.
#include "analysis/audit/fits.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "analysis/audit/kv_storage.h"
#include "analysis/audit/weighted_sums.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "kernels/attention/scores.h"

namespace attest {
namespace {

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
    for_tiles(0, position_ + 1, stop_, [&](std::int64_t first, std::int64_t count) {
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

  const std::atomic<bool>* stop() const { return stop_; }

 private:
  const AttentionLayer& layer_;
  std::span<const float> observed_;
  StoredHead head_;
  std::int64_t position_;
  std::optional<double> sink_;
  const std::atomic<bool>* stop_;
  std::vector<double> products_;  ///< [position + 1] q.k
};

/// norm2(observed - sums / total)^2 / norm2(observed)^2
double square_of_error(std::span<const float> observed, const double* sums, double total) {
  double squares = 0, size = 0;
  for (std::size_t d = 0; d < observed.size(); ++d) {
    const double difference = observed[d] - sums[d] / total;
    squares += difference * difference;
    size += static_cast<double>(observed[d]) * observed[d];
  }
  return size > 0 ? squares / size : squares;
}

/// Adds the squares of the row's relative errors at each scale.
void add_errors_at(const FittedRow& row, std::span<const double> scales, std::vector<double>& errors) {
  const std::int64_t begin = row.first_visible();
  const auto dim = static_cast<std::size_t>(row.value_dim());
  std::vector<double> largest(scales.size(), row.sink().value_or(-INFINITY)), totals(scales.size(), 0.0),
      sums(scales.size() * dim, 0.0), values(static_cast<std::size_t>(kTile) * dim),
      weights(scales.size() * static_cast<std::size_t>(kTile));
  for (std::size_t c = 0; c < scales.size(); ++c) {
    for (std::int64_t j = begin; j <= row.position(); ++j) largest[c] = std::max(largest[c], row.score(j, scales[c]));
    if (row.sink()) totals[c] = std::exp(*row.sink() - largest[c]);
  }
  for_tiles(begin, row.position() + 1, row.stop(), [&](std::int64_t first, std::int64_t count) {
    row.values(first, count, values.data());
    for (std::size_t c = 0; c < scales.size(); ++c)
      for (std::int64_t t = 0; t < count; ++t)
        totals[c] += weights[c * static_cast<std::size_t>(kTile) + static_cast<std::size_t>(t)] =
            std::exp(row.score(first + t, scales[c]) - largest[c]);
    add_weighted(weights.data(), std::ssize(scales), kTile, values.data(), count, row.value_dim(), row.value_dim(),
                 sums.data());
  });
  for (std::size_t c = 0; c < scales.size(); ++c)
    errors[c] += square_of_error(row.observed(), sums.data() + c * dim, totals[c]);
}

/// Squares of the row's relative errors under windows of 1, 2, ... tokens, up to all that precede it.
std::vector<double> errors_of_windows(const FittedRow& row, double scale) {
  double largest = row.sink().value_or(-INFINITY);
  for (std::int64_t j = 0; j <= row.position(); ++j) largest = std::max(largest, row.score(j, scale));
  const auto dim = static_cast<std::size_t>(row.value_dim());
  std::vector<double> sums(dim, 0.0), values(static_cast<std::size_t>(kTile) * dim), errors;
  double total = row.sink() ? std::exp(*row.sink() - largest) : 0;
  for (std::int64_t end = row.position() + 1; end > 0; end -= kTile) {
    if (row.stop() != nullptr && *row.stop()) throw Interrupted("interrupted");
    const std::int64_t first = std::max<std::int64_t>(0, end - kTile);
    row.values(first, end - first, values.data());
    for (std::int64_t j = end - 1; j >= first; --j) {
      const double weight = std::exp(row.score(j, scale) - largest);
      const double* value = values.data() + static_cast<std::size_t>(j - first) * dim;
      for (std::size_t d = 0; d < dim; ++d) sums[d] += weight * value[d];
      total += weight;
      errors.push_back(total > 0 ? square_of_error(row.observed(), sums.data(), total) : INFINITY);
    }
  }
  return errors;
}

}  // namespace

std::optional<Hypothesis> fitted_window(const AuditInput& input, const KvStorages& storages,
                                        std::span<const RowPlace> rows, const RoundingBound& bound,
                                        const std::atomic<bool>* stop) {
  std::vector<double> sums, worst;  // over the rows, of windows of 1, 2, ... tokens
  for (const RowPlace& place : rows) {
    const std::vector<double> errors =
        errors_of_windows(FittedRow(input, storages, place, stop), input.layer.softmax_scale);
    // A window that is longer than what precedes a row hides nothing from it.
    const std::size_t longest = std::max(sums.size(), errors.size());
    sums.resize(longest, sums.empty() ? 0 : sums.back());
    worst.resize(longest, worst.empty() ? 0 : worst.back());
    for (std::size_t w = 0; w < longest; ++w) {
      const double error = errors[std::min(w, errors.size() - 1)];
      sums[w] += error;
      worst[w] = std::max(worst[w], error);
    }
  }
  const auto nearest = static_cast<std::size_t>(std::ranges::min_element(sums) - sums.begin());
  const std::int64_t window = static_cast<std::int64_t>(nearest) + 1, own = input.layer.sliding_window;
  if (!std::isfinite(sums[nearest]) || nearest + 1 == sums.size() || window == own) return std::nullopt;
  const double near = std::pow(bound.roundings() * bound.unit(), 2);
  std::size_t minimum = nearest, maximum = nearest;
  while (minimum > 0 && worst[minimum - 1] <= near) --minimum;
  while (maximum + 1 < worst.size() && worst[maximum + 1] <= near) ++maximum;
  Hypothesis fitted = window_hypothesis(input, storages, window,
                                        fmt::format("a sliding window of {} tokens instead of {} (fitted)", window,
                                                    own > 0 ? std::to_string(own) : "none"));
  const std::string fitted_to = "fitted to " + counted(std::ssize(rows), "row");
  fitted.note = worst[nearest] <= near ? fmt::format("{}; {} to {} tokens are within rounding of them", fitted_to,
                                                     minimum + 1, maximum + 1)
                                       : fitted_to + ", of which some are not within rounding";
  return fitted;
}

std::optional<Hypothesis> fitted_scale(const AuditInput& input, const KvStorages& storages,
                                       std::span<const RowPlace> rows, const std::atomic<bool>* stop) {
  std::vector<FittedRow> to_fit;
  for (const RowPlace& place : rows) to_fit.emplace_back(input, storages, place, stop);
  constexpr int kPoints = 33;
  const double own = input.layer.softmax_scale;
  double centre = std::log(own), reach = std::log(64.0);
  for (int step = 0; step < 5; ++step, reach /= kPoints / 4.0) {
    std::vector<double> scales, errors(kPoints, 0.0);
    for (int i = 0; i < kPoints; ++i) scales.push_back(std::exp(centre + reach * (2.0 * i / (kPoints - 1) - 1)));
    for (const FittedRow& row : to_fit) add_errors_at(row, scales, errors);
    const auto nearest = std::ranges::min_element(errors);
    if (!std::isfinite(*nearest)) return std::nullopt;
    centre = std::log(scales[static_cast<std::size_t>(nearest - errors.begin())]);
  }
  if (std::fabs(centre - std::log(own)) < 1e-3) return std::nullopt;  // nothing else comes nearer
  Hypothesis fitted =
      scale_hypothesis(input, storages, std::exp(centre),
                       fmt::format("another softmax scale: {:.3g} (fitted) instead of {:.6g}", std::exp(centre), own));
  fitted.note = fmt::format("{:.6g}, fitted to {}", std::exp(centre), counted(std::ssize(rows), "row"));
  return fitted;
}

}  // namespace attest
