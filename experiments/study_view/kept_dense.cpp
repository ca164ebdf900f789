// Sets the errors of KV heads to 0, in several orders.
#include "experiments/study_view/kept_dense.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <span>
#include <utility>

namespace attest {
namespace {

constexpr int kDraws = 50;
constexpr unsigned kSeed = 33;

/// The cells of a selector at a setting, which are weighed again and again.
class DenseCells {
 public:
  DenseCells(const ModelStudy& study, const PooledSelector& selector, std::size_t setting, int group)
      : group_(group),
        errors_(study.cells(selector, "weighted_error_head").at(setting)),
        io_(study.cells(selector, "io_ratio").at(setting)) {
    std::erase_if(errors_, [](const SampleCells& cells) {
      return std::ranges::any_of(cells.values, [](float e) { return std::isnan(e); });
    });
    std::erase_if(io_, [&](const SampleCells& cells) {  // bytes and errors are of the same samples
      return std::ranges::count(errors_, key_of(cells), [](const SampleCells& e) { return key_of(e); }) == 0;
    });
  }

  bool empty() const { return errors_.empty(); }
  std::set<HeadPlace> kv_heads() const {
    std::set<HeadPlace> heads;
    for (const SampleCells& cells : errors_)
      for (const int layer : cells.layers)
        for (int h = 0; h < cells.num_heads; h += group_) heads.insert({layer, h / group_});
    return heads;
  }

  DensePoint with(const std::set<HeadPlace>& dense) const {
    DensePoint point{.count = dense.size()};
    std::int64_t queries = 0, reads = 0;
    for (const SampleCells& cells : errors_)
      for (std::int64_t n = 0; n < cells.num_queries; ++n, ++queries) {
        const double error = query_error(cells, n, dense);
        point.mean_error += error;
        point.largest_error = std::max(point.largest_error, error);
      }
    for (const SampleCells& cells : io_)
      each_cell(cells, [&](const HeadPlace& place, double io) {
        if (std::isnan(io)) return;
        point.io += dense.contains(place) ? 1 : io;
        ++reads;
      });
    point.mean_error /= static_cast<double>(queries);
    point.io /= static_cast<double>(reads);
    return point;
  }

  /// visit(KV head, value) for each cell.
  template <class Visit>
  void each_cell(const SampleCells& cells, Visit visit) const {
    for (std::size_t y = 0; y < cells.layers.size(); ++y) {
      const std::span<const float> layer = cells.layer(y);
      for (std::size_t i = 0; i < layer.size(); ++i)
        visit({cells.layers[y], static_cast<int>(i) % static_cast<int>(cells.num_heads) / group_}, double{layer[i]});
    }
  }

 private:
  double query_error(const SampleCells& cells, std::int64_t n, const std::set<HeadPlace>& dense) const {
    double sum = 0;
    for (std::size_t y = 0; y < cells.layers.size(); ++y) {
      double squares = 0;
      for (std::int64_t h = 0; h < cells.num_heads; ++h) {
        const double e{cells.layer(y)[static_cast<std::size_t>(n * cells.num_heads + h)]};
        if (!dense.contains({cells.layers[y], static_cast<int>(h) / group_})) squares += e * e;
      }
      sum += std::sqrt(squares);
    }
    return sum;
  }

  int group_;
  std::vector<SampleCells> errors_, io_;
};

std::vector<std::size_t> counts_up_to(std::size_t heads) {
  std::vector<std::size_t> counts{0};
  for (std::size_t n = 1; n < heads; n *= 2) counts.push_back(n);
  return counts;
}

DenseCurve in_order(const DenseCells& cells, DenseBy by, std::vector<HeadPlace> order) {
  DenseCurve curve{.by = by, .order = std::move(order), .points = {}};
  for (const std::size_t n : counts_up_to(curve.order.size()))
    curve.points.push_back(cells.with({curve.order.begin(), curve.order.begin() + static_cast<std::ptrdiff_t>(n)}));
  return curve;
}

DenseCurve by_chance(const DenseCells& cells, const std::set<HeadPlace>& heads) {
  DenseCurve curve{.by = DenseBy::chance, .order = {}, .points = {}};
  std::mt19937_64 random(kSeed);
  std::vector<HeadPlace> order(heads.begin(), heads.end());
  for (const std::size_t n : counts_up_to(order.size())) {
    DensePoint mean{.count = n};
    for (int i = 0; i < kDraws; ++i) {
      // The first n of a shuffle; std::ranges::sample and std::shuffle differ between standard libraries.
      for (std::size_t k = 0; k < n; ++k)
        std::swap(order[k], order[k + static_cast<std::size_t>(random() % (order.size() - k))]);
      const DensePoint point = cells.with({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n)});
      mean.io += point.io / kDraws;
      mean.mean_error += point.mean_error / kDraws;
      mean.largest_error += point.largest_error / kDraws;
    }
    curve.points.push_back(mean);
  }
  return curve;
}

}  // namespace

std::string_view name_of(DenseBy by) {
  constexpr std::string_view kNames[] = {"weight", "output error", "attention on the evidence", "chance"};
  return kNames[static_cast<std::size_t>(by)];
}

std::vector<DenseCurve> dense_curves(const ModelStudy& study, const PooledSelector& selector, std::size_t setting,
                                     const HeadRanking& weights) {
  const PlacedSample first = study.samples().front();
  const int group = first.study_dump().shape.group();
  const DenseCells cells(study, selector, setting, group);
  if (cells.empty()) return {};
  const std::set<HeadPlace> heads = cells.kv_heads();
  std::map<HeadPlace, double> of_heads;
  for (const WeighedHead& head : weights.heads) of_heads[head.place] = head.weight;
  const auto in_order_of = [&](DenseBy by, const std::map<HeadPlace, double>& values) {
    return in_order(cells, by, in_falling_order(heads, values));
  };
  std::vector<DenseCurve> curves{in_order_of(DenseBy::weight, squared_kv_weights(of_heads, group))};
  const auto add = [&](DenseBy by, const std::vector<SampleCells>& samples) {
    std::map<HeadPlace, double> values;
    for (const auto& [place, mean] : head_means(samples, MeanOver::cells, group)) values[place] = mean.value();
    if (!values.empty()) curves.push_back(in_order_of(by, values));
  };
  add(DenseBy::output_error, study.cells(selector, "output_error").at(setting));
  add(DenseBy::span_mass, score_cells_of_all(study, "span_mass"));
  curves.push_back(by_chance(cells, heads));
  return curves;
}

}  // namespace attest
