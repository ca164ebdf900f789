// Gathers cells from results files and selects layers and settings.
#include "analysis/statistics/sample_cells.h"

#include <algorithm>
#include <optional>

#include "analysis/results/axes.h"
#include "analysis/results/cell_check.h"
#include "analysis/statistics/model_cells.h"

namespace attest {
namespace {

/// Indices of the chosen layers: computed for `selector`, and dense in none of the compared selectors.
std::vector<std::size_t> chosen_layers(const ResultsFile& file, std::size_t dump, std::size_t sample,
                                       std::size_t selector, const LayerChoice& choice) {
  const Study& study = file.study();
  std::vector<std::size_t> compared;
  if (!choice.with_dense_layers)
    for (std::size_t i = 0; i < study.selectors.size(); ++i)
      if (choice.compared.empty() || i == selector ||
          std::find(choice.compared.begin(), choice.compared.end(), study.selectors[i].label) != choice.compared.end())
        compared.push_back(i);

  const std::vector<std::uint8_t>& done = file.done(dump, sample, selector);
  std::vector<std::size_t> layers;
  for (std::size_t y = 0; y < done.size(); ++y) {
    const bool dense = std::any_of(compared.begin(), compared.end(),
                                   [&](std::size_t i) { return file.dense(dump, sample, i)[y] != 0; });
    if (done[y] != 0 && !dense) layers.push_back(y);
  }
  return layers;
}

/// Selects one setting: cell i is element i * step + offset of the array. For a metric without settings, every element.
struct Slice {
  std::size_t step = 1;
  std::size_t offset = 0;
};

SampleCells slice(const MetricArray& array, const StudySample& sample, std::span<const std::size_t> layers, Slice slice,
                  const MetricRange& range) {
  SampleCells cells;
  cells.range = range;
  cells.sample = sample.name;
  cells.task = sample.task;
  cells.num_tokens = sample.num_tokens;
  cells.num_queries = array.shape[1];
  cells.num_heads = array.axes == MetricAxes::query_setting ? 1 : array.shape[2];
  const std::size_t per_layer = static_cast<std::size_t>(cells.num_queries * cells.num_heads);
  cells.values.reserve(layers.size() * per_layer);
  for (const std::size_t y : layers) {
    cells.layers.push_back(sample.layers[y]);
    for (std::size_t i = 0; i < per_layer; ++i)
      cells.values.push_back(array.values[(y * per_layer + i) * slice.step + slice.offset]);
  }
  return cells;
}

/// Calls visit(file, dump within the file, dump over all files, sample, selector) for each sample of each file that has
/// a selector `label`.
template <class Visit>
void each_sample(ResultsFiles files, std::string_view label, Visit visit) {
  std::size_t first_dump = 0;
  for (const ResultsFile* file : files) {
    const std::vector<StudyDump>& dumps = file->study().dumps;
    if (const std::optional<std::size_t> selector = file->find_selector(label))
      for (std::size_t d = 0; d < dumps.size(); ++d)
        for (std::size_t s = 0; s < dumps[d].samples.size(); ++s) visit(*file, d, first_dump + d, s, *selector);
    first_dump += dumps.size();
  }
}

const std::vector<std::string>* first_grid(ResultsFiles files, std::string_view label) {
  for (const ResultsFile* file : files)
    if (const auto selector = file->find_selector(label)) return &file->study().selectors[*selector].setting_labels;
  return nullptr;
}

std::optional<std::size_t> index_of(const std::vector<std::string>& labels, std::string_view label) {
  const auto at = std::find(labels.begin(), labels.end(), label);
  if (at == labels.end()) return std::nullopt;
  return static_cast<std::size_t>(at - labels.begin());
}

}  // namespace

std::vector<std::vector<SampleCells>> gather_settings(ResultsFiles files, std::string_view label,
                                                      std::string_view metric, std::span<const std::string> settings,
                                                      const LayerChoice& choice) {
  std::vector<std::vector<SampleCells>> gathered(settings.size());
  bool setting_axis = true;
  each_sample(
      files, label, [&](const ResultsFile& file, std::size_t d, std::size_t dump, std::size_t s, std::size_t selector) {
        const std::optional<MetricArray> array = read_metric(file, d, s, selector, metric);
        if (!array || array->axes == MetricAxes::query_head_lambda || array->axes == MetricAxes::query_setting_token)
          return;
        const StudySample& sample = file.study().dumps[d].samples[s];
        const std::vector<std::size_t> layers =
            is_of_model(metric) ? std::vector<std::size_t>{0} : chosen_layers(file, d, s, selector, choice);
        const std::vector<std::string>& grid = file.study().selectors[selector].setting_labels;
        setting_axis = has_settings(array->axes);
        const MetricRange range = range_of(&file.study().selectors[selector], metric).value_or(MetricRange{});
        for (std::size_t i = 0; i < (setting_axis ? settings.size() : std::min<std::size_t>(1, settings.size())); ++i) {
          const std::optional<std::size_t> offset = setting_axis ? index_of(grid, settings[i]) : 0;
          if (!offset) continue;
          gathered[i].push_back(slice(*array, sample, layers, {setting_axis ? grid.size() : 1, *offset}, range));
          gathered[i].back().dump = static_cast<int>(dump);
        }
      });
  if (!setting_axis) gathered.resize(1);
  return gathered;
}

std::vector<std::vector<SampleCells>> gather_settings(ResultsFiles files, std::string_view label,
                                                      std::string_view metric, const LayerChoice& choice) {
  const std::vector<std::string>* grid = first_grid(files, label);
  if (grid == nullptr) return {};
  return gather_settings(files, label, metric, *grid, choice);
}

std::vector<SampleCells> gather(ResultsFiles files, std::string_view label, std::string_view metric,
                                std::string_view setting_label, const LayerChoice& choice) {
  const std::string setting(setting_label);
  return gather_settings(files, label, metric, {&setting, 1}, choice).front();
}

std::vector<SampleCells> gather_scores(ResultsFiles files, std::string_view label, std::string_view metric,
                                       const LayerChoice& choice) {
  std::vector<SampleCells> gathered;
  each_sample(
      files, label, [&](const ResultsFile& file, std::size_t d, std::size_t dump, std::size_t s, std::size_t selector) {
        const std::optional<MetricArray> array = file.read_scores(d, s, metric);
        if (!array) return;
        gathered.push_back(slice(*array, file.study().dumps[d].samples[s], chosen_layers(file, d, s, selector, choice),
                                 {}, range_of(nullptr, metric).value_or(MetricRange{})));
        gathered.back().dump = static_cast<int>(dump);
      });
  return gathered;
}

}  // namespace attest
