// Streams the prompts of results files.
#include "analysis/validation/prompt_values.h"

#include <algorithm>

#include "analysis/statistics/model_cells.h"
#include "analysis/statistics/paired_cells.h"
#include "dumps/base/parallel_for.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

/// The cells of one metric, with the candidates in place of settings where there are any. Empty if one of them lacks
/// it.
std::optional<MetricArray> read_settings(const Prompt& prompt, std::string_view metric) {
  if (prompt.columns.empty()) return read_metric(*prompt.file, prompt.dump, prompt.sample, prompt.selector, metric);
  MetricArray all;
  const std::size_t width = prompt.columns.size();
  for (std::size_t c = 0; c < width; ++c) {
    const auto [selector, setting] = prompt.columns[c];
    const std::optional<MetricArray> own = read_metric(*prompt.file, prompt.dump, prompt.sample, selector, metric);
    if (!own) return std::nullopt;
    const bool layers = own->axes == MetricAxes::query_setting, settings = has_settings(own->axes);
    const auto stride = settings ? static_cast<std::size_t>(own->shape.back()) : 1;
    const std::size_t cells = own->values.size() / stride;
    if (c == 0) {
      all = {layers ? MetricAxes::query_setting : MetricAxes::query_head_setting, own->shape, {}};
      if (settings) all.shape.pop_back();
      all.shape.push_back(static_cast<std::int64_t>(width));
      all.values.resize(cells * width);
    }
    for (std::size_t i = 0; i < cells; ++i)
      all.values[i * width + c] = own->values[i * stride + (settings ? *setting : 0)];
  }
  return all;
}

}  // namespace

std::span<const float> PromptCells::cell(std::size_t row, std::int64_t query, std::int64_t head) const {
  const auto index = (row * static_cast<std::size_t>(num_queries) + static_cast<std::size_t>(query)) *
                         static_cast<std::size_t>(num_heads) +
                     static_cast<std::size_t>(head);
  return {array.values.data() + index * num_settings, num_settings};
}

std::optional<PromptCells> read_cells(const Prompt& prompt, const MetricStatistic& quantity) {
  if (prompt.file == nullptr || quantity.metric == kAnswersMetric) return std::nullopt;
  std::optional<MetricArray> array =
      quantity.of_scores ? prompt.file->read_scores(prompt.dump, prompt.sample, quantity.stored_metric())
                         : read_settings(prompt, quantity.stored_metric());
  if (!array) return std::nullopt;
  PromptCells cells{.array = std::move(*array), .rows = prompt.rows};
  if (is_of_model(quantity.metric)) cells.rows = {0};  // of the whole model
  cells.num_queries = cells.array.shape[1];
  cells.num_heads = cells.array.axes == MetricAxes::query_setting ? 1 : cells.array.shape[2];
  cells.num_settings = has_settings(cells.array.axes) ? static_cast<std::size_t>(cells.array.shape.back()) : 1;
  if (quantity.metric == kSpanRecallMetric) {
    const std::optional<MetricArray> mass = prompt.file->read_scores(prompt.dump, prompt.sample, "span_mass");
    if (!mass) return std::nullopt;
    keep_retrieval_cells(cells.array, *mass);
  }
  return cells;
}

double CellSums::get(const MetricStatistic& quantity) const {
  if (count == 0) return kNaN;
  double x = sum / static_cast<double>(count);
  if (quantity.statistic != CellStatistic::mean)
    x = static_cast<double>((quantity.statistic == CellStatistic::max) != quantity.deficit ? maximum : minimum);
  return quantity.deficit ? 1 - x : x;
}

CellRange all_of(const PromptCells& cells) { return {0, cells.rows.size(), 0, cells.num_heads}; }

std::vector<CellSums> sums_of(const PromptCells& cells, const CellRange& range) {
  std::vector<CellSums> sums(cells.num_settings);
  for_cells(cells, range, [&](std::span<const float> cell) {
    for (std::size_t s = 0; s < cell.size(); ++s) sums[s].add(cell[s]);
  });
  return sums;
}

std::vector<double> reduce(const PromptCells& cells, const CellRange& range, const MetricStatistic& quantity,
                           std::size_t num_settings) {
  std::vector<double> values;
  if (quantity.statistic == CellStatistic::quantile) {
    std::vector<std::vector<float>> of_setting(cells.num_settings);
    for_cells(cells, range, [&](std::span<const float> cell) {
      for (std::size_t s = 0; s < cell.size(); ++s) of_setting[s].push_back(cell[s]);
    });
    for (std::vector<float>& column : of_setting) values.push_back(statistic_of(column, quantity));
  } else {
    for (const CellSums& sums : sums_of(cells, range)) values.push_back(sums.get(quantity));
  }
  if (values.size() != num_settings) values.resize(num_settings, values.front());  // the same at every setting
  return values;
}

const MetricStatistic& mean_keep_ratio() {
  static const MetricStatistic quantity = parse_metric_statistic("keep_ratio");
  return quantity;
}

const MetricStatistic& mean_io_ratio() {
  static const MetricStatistic quantity = parse_metric_statistic("io_ratio");
  return quantity;
}

PromptValues values_of(const Prompt& prompt, std::span<const Target> targets, std::size_t num_settings) {
  const auto numbers = [&](const MetricStatistic& quantity) {
    const std::optional<PromptCells> cells = read_cells(prompt, quantity);
    return cells ? reduce(*cells, all_of(*cells), quantity, num_settings) : std::vector<double>(num_settings, kNaN);
  };
  PromptValues values{.targets = {},
                      .keep = prompt.kept.empty() ? numbers(mean_keep_ratio()) : prompt.kept,
                      .io = numbers(mean_io_ratio())};
  for (const Target& target : targets)
    values.targets.push_back(target.of_answers() && !prompt.answers.empty() ? prompt.answers
                                                                            : numbers(target.quantity));
  return values;
}

std::vector<PromptValues> values_of(const PromptSet& set, std::span<const Target> targets, int threads) {
  std::vector<PromptValues> values(set.prompts.size());
  parallel_for(threads, values.size(),
               [&](int, std::size_t i) { values[i] = values_of(set.prompts[i], targets, set.selector.grid.size()); });
  return values;
}

}  // namespace attest
