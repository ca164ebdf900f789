// Pools span metrics over cells and over retrieval cells.
#include "experiments/study_view/span_quality.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/not_defined.h"

namespace attest {
namespace {

/// The sum of `part` over that of `whole`, over the cells that both have; one of them may lack a sample.
double share_of_sums(std::span<const SampleCells> part, std::span<const SampleCells> whole) {
  double part_sum = 0, whole_sum = 0;
  for (const SampleCells& p : part) {
    const auto w = std::ranges::find_if(whole, [&](const SampleCells& c) { return key_of(c) == key_of(p); });
    if (w == whole.end() || w->values.size() != p.values.size()) continue;
    for (std::size_t i = 0; i < p.values.size(); ++i)
      if (!std::isnan(p.values[i]) && !std::isnan(w->values[i])) {
        part_sum += p.values[i];
        whole_sum += w->values[i];
      }
  }
  return whole_sum > 0 ? part_sum / whole_sum : kNaN;
}

}  // namespace

std::vector<SampleCells> of_task(const std::vector<SampleCells>& samples, const std::string& task) {
  std::vector<SampleCells> chosen = samples;
  if (!task.empty()) std::erase_if(chosen, [&](const SampleCells& c) { return c.task != task; });
  return chosen;
}

SpanCells::SpanCells(const ModelStudy& study, const PooledSelector& selector, const std::set<int>& except)
    : keep_(study.cells(selector, "span_keep", except)),
      mass_kept_(study.cells(selector, "span_mass_kept", except)),
      recall_(study.cells(selector, "recall", except)),
      mass_(study.score_cells(selector, "span_mass", except)) {}

SpanQuality SpanCells::at(std::size_t setting, const std::string& task) const {
  const std::vector<SampleCells> keep = of_task(keep_.at(setting), task), mass = of_task(mass_, task);
  const Moments kept = describe(keep);
  const SpanRecall retrieval_keep = span_recall(keep, mass);  // the same matching of cells for another metric
  const SpanRecall recall = span_recall(of_task(recall_.at(setting), task), mass);
  return {.keep = kept.mean,
          .retrieval_keep = retrieval_keep.mean,
          .mass_kept = share_of_sums(of_task(mass_kept_.at(setting), task), mass),
          .recall_mean = recall.mean,
          .recall_min = recall.min,
          .cells = kept.count,
          .retrieval_cells = recall.cells};
}

}  // namespace attest
