// Reduces the cells of one prompt to one number per target and setting.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "analysis/validation/prompt_set.h"
#include "analysis/validation/target.h"

namespace attest {

/// The cells of one metric of one prompt in the layers in scope.
struct PromptCells {
  MetricArray array;              ///< of all layers of the sample
  std::vector<std::size_t> rows;  ///< the layers in scope; 0 alone for a metric of the whole model
  std::int64_t num_queries = 0;
  std::int64_t num_heads = 0;    ///< 1 for a metric of the whole layer
  std::size_t num_settings = 1;  ///< 1 for a metric without settings

  /// The settings of the cell at (row of the sample, query, head): [num_settings].
  std::span<const float> cell(std::size_t row, std::int64_t query, std::int64_t head) const;
};

/// The cells of the target's metric; of span_recall those that are not retrieval cells are NaN. Empty if the results
/// lack it for this prompt.
std::optional<PromptCells> read_cells(const Prompt& prompt, const MetricStatistic& quantity);

/// What the statistics mean, min and max of some cells are made of.
struct CellSums {
  double sum = 0;
  std::int64_t count = 0;  ///< cells that are not NaN
  float minimum = std::numeric_limits<float>::infinity(), maximum = -std::numeric_limits<float>::infinity();

  void add(float x) {
    if (x != x) return;
    sum += static_cast<double>(x);
    ++count;
    minimum = std::min(minimum, x);
    maximum = std::max(maximum, x);
  }
  void add(const CellSums& other) {
    sum += other.sum;
    count += other.count;
    minimum = std::min(minimum, other.minimum);
    maximum = std::max(maximum, other.maximum);
  }
  /// The statistic, which is one of the three; NaN without cells.
  double get(const MetricStatistic& quantity) const;
};

/// Part of the cells of a prompt: rows [first_row, end_row) of PromptCells::rows, `num_heads` heads.
struct CellRange {
  std::size_t first_row = 0, end_row = 0;
  std::int64_t first_head = 0, num_heads = 0;
};
CellRange all_of(const PromptCells& cells);

/// Calls visit(settings of the cell) for the cells of the range.
template <class Visit>
void for_cells(const PromptCells& cells, const CellRange& range, Visit visit) {
  for (std::size_t y = range.first_row; y < range.end_row; ++y)
    for (std::int64_t n = 0; n < cells.num_queries; ++n)
      for (std::int64_t h = range.first_head; h < range.first_head + range.num_heads; ++h)
        visit(cells.cell(cells.rows[y], n, h));
}

/// [num_settings] of `cells`.
std::vector<CellSums> sums_of(const PromptCells& cells, const CellRange& range);

/// One number per setting of the grid: [num_settings]. NaN where no cell is defined.
std::vector<double> reduce(const PromptCells& cells, const CellRange& range, const MetricStatistic& quantity,
                           std::size_t num_settings);

const MetricStatistic& mean_keep_ratio();
const MetricStatistic& mean_io_ratio();

/// What one prompt shows.
struct PromptValues {
  std::vector<std::vector<double>> targets;  ///< [target][setting of the grid]; NaN: the prompt does not count for it
  std::vector<double> keep, io;              ///< [setting] mean keep_ratio and io_ratio; NaN if the results lack them
};

PromptValues values_of(const Prompt& prompt, std::span<const Target> targets, std::size_t num_settings);

/// values_of() every prompt, on a few threads. Memory: a few numbers per prompt, and the cells of one prompt per
/// thread.
std::vector<PromptValues> values_of(const PromptSet& set, std::span<const Target> targets, int threads);

}  // namespace attest
