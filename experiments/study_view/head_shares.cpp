// Adds up weights and weighted errors by head.
#include "experiments/study_view/head_shares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <ranges>
#include <span>

#include "kernels/base/not_defined.h"

namespace attest {
namespace {

HeadShares shares_of(const std::vector<SampleCells>& samples) {
  HeadShares found;
  double total = 0;
  std::int64_t queries = 0;
  for (const SampleCells& cells : samples) {
    if (std::ranges::all_of(cells.values, [](float e) { return std::isnan(e); })) continue;
    queries += cells.num_queries;
    for (std::size_t y = 0; y < cells.layers.size(); ++y)
      for (std::int64_t n = 0; n < cells.num_queries; ++n) {
        const std::span<const float> heads = cells.layer(y).subspan(static_cast<std::size_t>(n * cells.num_heads),
                                                                    static_cast<std::size_t>(cells.num_heads));
        double squares = 0;
        for (const float e : heads) squares += double{e} * double{e};
        if (!(squares > 0)) continue;  // exact, or not defined
        const double root = std::sqrt(squares);
        total += root;
        for (std::size_t h = 0; h < heads.size(); ++h)
          found.shares[{cells.layers[y], static_cast<int>(h)}] += double{heads[h]} * double{heads[h]} / root;
      }
  }
  for (auto& [place, part] : found.shares) part /= total;
  found.mean_error = queries > 0 ? total / static_cast<double>(queries) : kNaN;
  return found;
}

}  // namespace

std::size_t HeadRanking::half() const {
  const auto at = std::ranges::find_if(heads, [](const WeighedHead& head) { return head.so_far >= 0.5; });
  return static_cast<std::size_t>(at - heads.begin()) + (at == heads.end() ? 0 : 1);
}

std::map<HeadPlace, double> squared_kv_weights(const std::map<HeadPlace, double>& weights, int group) {
  std::map<HeadPlace, double> squares;
  for (const auto& [place, weight] : weights) squares[{place.first, place.second / group}] += weight * weight;
  return squares;
}

std::vector<HeadPlace> in_falling_order(const std::set<HeadPlace>& places, const std::map<HeadPlace, double>& values) {
  std::vector<HeadPlace> order(places.begin(), places.end());
  std::ranges::stable_sort(order, std::greater{}, [&](const HeadPlace& place) {
    const auto found = values.find(place);
    return found == values.end() ? -1.0 : found->second;
  });
  return order;
}

std::vector<HeadPlace> in_falling_order(const std::map<HeadPlace, double>& values) {
  const auto places = values | std::views::keys;
  return in_falling_order({places.begin(), places.end()}, values);
}

HeadRanking rank_by_weight(const ModelStudy& study) {
  HeadRanking ranking;
  const std::vector<SampleCells> weights = score_cells_of_all(study, "head_weight");
  std::map<HeadPlace, Mean> masses = head_means(score_cells_of_all(study, "span_mass"), MeanOver::cells);
  double total = 0, so_far = 0;
  for (const auto& [place, mean] : head_means(weights, MeanOver::first_queries)) {
    const auto mass = masses.find(place);
    ranking.heads.push_back(
        {.place = place, .weight = mean.value(), .span_mass = mass == masses.end() ? kNaN : mass->second.value()});
    ranking.prompts = std::max(ranking.prompts, static_cast<int>(mean.count));
    total += ranking.heads.back().weight;
  }
  std::ranges::stable_sort(ranking.heads, std::greater{}, &WeighedHead::weight);
  for (WeighedHead& head : ranking.heads) {
    so_far += head.weight;
    head.of_all = total > 0 ? head.weight / total : kNaN;
    head.so_far = total > 0 ? so_far / total : kNaN;
  }
  return ranking;
}

std::vector<std::pair<HeadPlace, double>> HeadShares::ranked() const {
  std::vector<std::pair<HeadPlace, double>> list(shares.begin(), shares.end());
  std::ranges::stable_sort(list, std::greater{}, [](const auto& entry) { return entry.second; });
  return list;
}

double HeadShares::of(const HeadPlace& place) const {
  const auto found = shares.find(place);
  return found == shares.end() ? 0 : found->second;
}

std::vector<HeadShares> head_shares(const ModelStudy& study, const PooledSelector& selector) {
  std::vector<HeadShares> all;
  for (const std::vector<SampleCells>& samples : study.cells(selector, "weighted_error_head"))
    all.push_back(shares_of(samples));
  const bool none = std::ranges::all_of(all, [](const HeadShares& s) { return std::isnan(s.mean_error); });
  return none ? std::vector<HeadShares>{} : all;
}

}  // namespace attest
