// Finds dumps, reads layers, adds up rows.
#include "experiments/study_view/scan_bound_study.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "dumps/base/error.h"
#include "experiments/study_view/scan_bound.h"
#include "experiments/study_view/study_dumps.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

/// The residual decides neither estimates nor what is kept; without it nothing is refined.
SelectorSpec spec_of(const PooledSelector& selector) {
  SelectorSpec spec{.label = selector.group.label, .name = selector.group.name, .options = {}};
  for (const auto& [name, value] : selector.options())
    spec.options.emplace_back(name, name == "residual" ? "exact" : value);
  return spec;
}

void add(LayerBounds& sums, const ScanBoundRow& row, std::span<const float> tail, std::span<const float> lower_tail) {
  ++sums.rows;
  sums.delta += row.delta;
  sums.alpha += row.alpha;
  sums.alpha_min = std::min(sums.alpha_min, row.alpha);
  sums.alpha_max = std::max(sums.alpha_max, row.alpha);
  sums.sigma_block += row.sigma_block;
  sums.sigma_paper += row.sigma_paper;
  sums.at.resize(row.at.size());
  for (std::size_t i = 0; i < row.at.size(); ++i) {
    const ScanBoundAt& at = row.at[i];
    BoundSums& sum = sums.at[i];
    const auto measured = static_cast<double>(tail[i]);
    sum.tail += measured;
    sum.lower_tail += static_cast<double>(lower_tail[i]);
    sum.bound_block += at.bound_block;
    sum.bound_paper += at.bound_paper;
    sum.lower_bound_block += at.lower_bound_block;
    sum.lower_bound_paper += at.lower_bound_paper;
    if (measured > at.bound_block) ++sum.above_block;
    if (measured > at.bound_paper) ++sum.above_paper;
    sum.salient += at.salient;
    sum.missed += at.missed;
    sum.dropped += at.dropped;
    sum.missed_bound_block += at.missed_bound_block;
    sum.missed_bound_paper += at.missed_bound_paper;
  }
}

class Computation {
 public:
  Computation(const PooledSelector& ffd, std::size_t setting, int threads)
      : ffd_(ffd),
        threads_(threads),
        spec_(spec_of(ffd)),
        reader_(spec_),
        scan_(reader_),
        selector_(make_selector(spec_)),
        delta_(ffd.group.grid[setting]) {}

  /// Adds the layers that no file before had of the sample.
  void add_sample(const PlacedSample& place, const DumpReader& dump, ScanBoundStudy& result) {
    const ResultsFile& file = *place.file;
    const StudySample& sample = place.study_sample();
    const std::size_t selector = file.find_selector(ffd_.group.label).value();
    const auto both = file.read(place.dump, place.sample, selector, "scan_error_tail");
    const auto lower = file.read(place.dump, place.sample, selector, "scan_error_lower_tail");
    const auto found = std::ranges::find(dump.info().samples, sample.name, &SampleInfo::name);
    const std::optional<std::vector<std::size_t>> queries =
        found == dump.info().samples.end() ? std::nullopt : indices_of(found->query_positions, sample.query_positions);
    if (!both || !lower || !queries) {
      result.problem = fmt::format("{} does not hold the queries of sample '{}'", dump.info().path, sample.name);
      return;
    }
    AttentionLayer layer;
    Known& known = known_.try_emplace(place.key, Known{.index = result.samples.size()}).first->second;
    if (known.index == result.samples.size()) result.samples.emplace_back();
    for (std::size_t y = 0; y < sample.layers.size(); ++y) {
      if (!file.done(place.dump, place.sample, selector)[y] || file.dense(place.dump, place.sample, selector)[y] ||
          !known.layers.insert(sample.layers[y]).second)
        continue;
      if (!read_again(dump, sample, sample.layers[y], threads_, layer, result.problem)) return;
      select_queries(layer, *queries);
      const std::vector<ScanBoundRow> rows = scan_bounds(layer, *selector_, scan_, delta_, result.lambdas, threads_);
      const std::size_t lambdas = result.lambdas.size();
      if ((y + 1) * rows.size() * lambdas > both->values.size()) {
        result.problem = fmt::format("{} has other heads than the results", dump.info().path);
        return;
      }
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const std::size_t begin = (y * rows.size() + r) * lambdas;
        const auto tail = std::span(both->values).subspan(begin, lambdas);
        if (rows[r].at.empty() || std::isnan(tail.front())) continue;
        const auto lower_tail = std::span(lower->values).subspan(begin, lambdas);
        for (LayerBounds* sums : {&result.layers[sample.layers[y]], &result.samples[known.index], &result.pooled})
          add(*sums, rows[r], tail, lower_tail);
      }
    }
  }

 private:
  struct Known {
    std::size_t index;  ///< in ScanBoundStudy::samples
    std::set<int> layers = {};
  };

  /// Where each of `wanted` stands in `all`; nothing if one is missing.
  static std::optional<std::vector<std::size_t>> indices_of(const std::vector<std::int64_t>& all,
                                                            const std::vector<std::int64_t>& wanted) {
    std::vector<std::size_t> indices;
    for (const std::int64_t position : wanted) {
      const auto found = std::ranges::lower_bound(all, position);
      if (found == all.end() || *found != position) return std::nullopt;
      indices.push_back(static_cast<std::size_t>(found - all.begin()));
    }
    return indices;
  }

  const PooledSelector& ffd_;
  const int threads_;
  const SelectorSpec spec_;
  OptionReader reader_;
  const FfdScan scan_;
  const std::unique_ptr<Selector> selector_;
  const Setting delta_;
  std::map<SampleKey, Known> known_;
};

ScanBoundStudy scan_bound_study(const ModelStudy& study, const PooledSelector& ffd, std::size_t setting, int threads) {
  ScanBoundStudy result;
  try {
    Computation computation(ffd, setting, threads);
    StudyDumps dumps(threads);
    for (const PlacedSample& place : study.samples()) {
      if (!place.file->find_selector(ffd.group.label)) continue;
      if (result.lambdas.empty()) result.lambdas = place.file->study().lambdas;
      if (result.lambdas != place.file->study().lambdas) {
        result.problem = "the results files have different lambdas";
        return result;
      }
      const DumpReader* dump = dumps.of(place);
      result.problem = dumps.problem();
      result.hashed = dumps.hashed();
      if (dump != nullptr) computation.add_sample(place, *dump, result);
      if (!result.problem.empty()) return result;
    }
    std::erase_if(result.samples, [](const LayerBounds& sample) { return sample.rows == 0; });
  } catch (const Error& error) {  // of the dump, or options of a newer release
    result.problem = error.what();
  }
  return result;
}

}  // namespace

const ScanBoundStudy& ScanBounds::of(const ModelStudy& study, const PooledSelector& ffd, std::size_t setting) {
  const std::vector<PlacedSample>& samples = study.samples();
  const auto same = [&](const Made& made) {
    return made.samples == samples && made.label == ffd.group.label && made.setting == setting;
  };
  const auto found = std::ranges::find_if(made_, same);
  if (found != made_.end()) return *found->bounds;
  auto bounds = std::make_unique<ScanBoundStudy>(scan_bound_study(study, ffd, setting, threads_));
  made_.push_back({samples, ffd.group.label, setting, std::move(bounds)});
  return *made_.back().bounds;
}

}  // namespace attest
