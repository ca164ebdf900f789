// Ranks heads by exact mass on the spans.
#include "experiments/study_view/retrieval_heads.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "experiments/study_view/head_means.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

/// The values of one head, by query; empty if the sample lacks the layer or the head.
std::vector<double> queries_of(const SampleCells& cells, int layer, int head) {
  const auto at = std::ranges::find(cells.layers, layer);
  if (at == cells.layers.end() || head >= cells.num_heads) return {};
  const std::span<const float> all = cells.layer(static_cast<std::size_t>(at - cells.layers.begin()));
  std::vector<double> values;
  for (std::int64_t n = 0; n < cells.num_queries; ++n)
    values.push_back(static_cast<double>(all[static_cast<std::size_t>(n * cells.num_heads + head)]));
  return values;
}

const SampleCells* of_prompt(const std::vector<SampleCells>& all, const SampleCells& like) {
  const auto found = std::ranges::find_if(all, [&](const SampleCells& c) { return key_of(c) == key_of(like); });
  return found == all.end() ? nullptr : &*found;
}

bool is_retrieval(const std::vector<double>& masses) {
  return std::ranges::any_of(masses, [](double mass) { return mass >= kRetrievalMass; });
}

struct HeadSum {
  RetrievalHead head;
  std::set<SampleKey> retrieval;
};

std::vector<HeadSum> head_sums(const std::vector<SampleCells>& masses, int group) {
  std::map<HeadPlace, HeadSum> sums;
  for (const SampleCells& cells : masses)
    for (const int layer : cells.layers)
      for (int head = 0; head < cells.num_heads; ++head) {
        std::vector<double> seen = queries_of(cells, layer, head);
        std::erase_if(seen, [](double mass) { return std::isnan(mass); });
        if (seen.empty()) continue;
        HeadSum& of = sums[{layer, head}];
        of.head = {.layer = layer, .head = head, .kv_head = head / group, .prompts = of.head.prompts + 1};
        if (is_retrieval(seen)) of.retrieval.insert(key_of(cells));
      }
  std::vector<HeadSum> list;
  const std::map<HeadPlace, Mean> means = head_means(masses, MeanOver::cells);
  for (auto& [place, of] : sums) {
    of.head.mass = means.at(place).value();
    of.head.retrieval_prompts = static_cast<int>(of.retrieval.size());
    list.push_back(std::move(of));
  }
  std::ranges::stable_sort(list, std::greater{}, [](const HeadSum& of) { return of.head.mass; });
  return list;
}

}  // namespace

std::int64_t RetrievalRanking::num_retrieval() const {
  return std::ranges::count_if(heads, [](const RetrievalHead& head) { return head.retrieval_prompts > 0; });
}

std::size_t RetrievalRanking::needed() const {
  const auto first = std::ranges::find(heads, prompts, &RetrievalHead::covered_prompts);
  return first == heads.end() ? 0 : static_cast<std::size_t>(first - heads.begin()) + 1;
}

RetrievalRanking rank_retrieval_heads(const ModelStudy& study) {
  RetrievalRanking ranking;
  const std::vector<PlacedSample>& samples = study.samples();
  if (samples.empty()) return ranking;
  const std::vector<SampleCells> masses = score_cells_of_all(study, "span_mass");
  for (const SampleCells& cells : masses)
    ranking.prompts += std::ranges::all_of(cells.values, [](float mass) { return std::isnan(mass); }) ? 0 : 1;
  std::vector<HeadSum> sums = head_sums(masses, samples[0].study_dump().shape.group());
  double total = 0, so_far = 0;
  for (const HeadSum& of : sums) total += of.head.mass;
  std::set<SampleKey> covered;
  for (HeadSum& of : sums) {
    covered.merge(of.retrieval);
    so_far += of.head.mass;
    of.head.covered_prompts = static_cast<int>(covered.size());
    of.head.cumulative_mass = total > 0 ? so_far / total : kNaN;
    ranking.heads.push_back(of.head);
  }
  return ranking;
}

HeadKeeping::HeadKeeping(const ModelStudy& study, const PooledSelector& selector)
    : keep_(study.cells(selector, "span_keep")),
      mass_kept_(study.cells(selector, "span_mass_kept")),
      mass_(study.score_cells(selector, "span_mass")) {}

HeadKeep HeadKeeping::at(std::size_t setting, const RetrievalHead& head) const {
  HeadKeep keep{.mass_kept = kNaN, .worst_prompt = kNaN, .worst_retrieval_prompt = kNaN, .span_keep = kNaN};
  double kept_of_all = 0, mass_of_all = 0;
  for (const SampleCells& kept : mass_kept_.at(setting)) {
    const SampleCells* masses = of_prompt(mass_, kept);
    if (masses == nullptr) continue;
    const std::vector<double> parts = queries_of(kept, head.layer, head.head),
                              all = queries_of(*masses, head.layer, head.head);
    double kept_here = 0, mass_here = 0;
    for (std::size_t n = 0; n < std::min(parts.size(), all.size()); ++n)
      if (!std::isnan(parts[n]) && !std::isnan(all[n])) {
        kept_here += parts[n];
        mass_here += all[n];
      }
    if (!(mass_here > 0)) continue;
    kept_of_all += kept_here;
    mass_of_all += mass_here;
    // fmin takes the number where the other is NaN.
    keep.worst_prompt = std::fmin(keep.worst_prompt, kept_here / mass_here);
    if (is_retrieval(all)) keep.worst_retrieval_prompt = std::fmin(keep.worst_retrieval_prompt, kept_here / mass_here);
  }
  if (mass_of_all > 0) keep.mass_kept = kept_of_all / mass_of_all;
  std::vector<double> shares;
  for (const SampleCells& cells : keep_.at(setting))
    for (const double share : queries_of(cells, head.layer, head.head)) shares.push_back(share);
  keep.span_keep = describe(std::span<const double>(shares)).mean;
  return keep;
}

}  // namespace attest
