// Pools lost span tokens over queries and prompts.
#include "experiments/study_view/span_losses.h"

#include <algorithm>
#include <cmath>

#include "analysis/statistics/model_span_lost.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

/// Adds a prompt with the values of its queries; NaN ones are left out.
void add_prompt(PromptLoss& loss, const std::string& name, const std::vector<double>& queries) {
  const Moments moments = describe(std::span<const double>(queries));
  if (moments.count == 0) return;
  ++loss.prompts;
  if (moments.mean > loss.worst) {
    loss.worst = moments.mean;
    loss.worst_prompt = name;
  }
  loss.mean += moments.mean;
}

void finish(PromptLoss& loss) {
  if (loss.prompts == 0)
    loss.mean = loss.worst = kNaN;
  else
    loss.mean /= loss.prompts;
}

/// For each query, the least value over layers.
std::vector<double> best_of_layers(const SampleCells& cells) {
  std::vector<double> minimum(static_cast<std::size_t>(cells.num_queries), kNaN);
  for (std::size_t y = 0; y < cells.layers.size(); ++y)
    for (std::size_t n = 0; n < minimum.size(); ++n)
      minimum[n] = std::fmin(minimum[n], static_cast<double>(cells.layer(y)[n]));
  return minimum;
}

void add_models(const ModelStudy& study, const StudySelector& group, const std::set<int>& except,
                std::vector<SpanLoss>& losses) {
  for (const PlacedSample& at : study.samples()) {
    const std::optional<std::size_t> selector = at.file->find_selector(group.label);
    if (!selector) continue;
    const auto lost = model_span_lost(*at.file, at.dump, at.sample, *selector, except);
    if (!lost) continue;
    const std::vector<std::string>& labels = at.file->study().selectors[*selector].setting_labels;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto setting = std::ranges::find(group.setting_labels, labels[i]);
      if (setting == group.setting_labels.end()) continue;
      std::vector<double> queries;
      for (std::int64_t n = 0; n < lost->queries; ++n) queries.push_back(lost->at(n, static_cast<std::int64_t>(i)));
      add_prompt(losses[static_cast<std::size_t>(setting - group.setting_labels.begin())].model,
                 study.sample_title(at.key), queries);
    }
  }
}

}  // namespace

std::vector<SpanLoss> span_losses(const ModelStudy& study, const PooledSelector& selector,
                                  const std::set<int>& except) {
  const std::vector<std::vector<SampleCells>> layers = study.cells(selector, "span_lost", except);
  if (std::ranges::all_of(layers, [](const auto& samples) { return samples.empty(); })) return {};
  std::vector<SpanLoss> losses(selector.group.grid.size());
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const SampleCells& cells : layers[i])
      add_prompt(losses[i].best_layer, study.sample_title(key_of(cells)), best_of_layers(cells));
  add_models(study, selector.group, except, losses);
  for (SpanLoss& loss : losses) {
    finish(loss.best_layer);
    finish(loss.model);
  }
  return losses;
}

}  // namespace attest
