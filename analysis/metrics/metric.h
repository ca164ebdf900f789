// The list of metrics. A metric is a row of the table in metric.cpp and the files of its functions. The layout of
// results, what a study computes on either device, summaries, `attest list` and the documents' table follow from the
// rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "analysis/metrics/rows.h"
#include "kernels/metric_info.h"

namespace attest {

// Of the CUDA side, which needs CUDA headers: rows_cuda.h.
struct CudaExactRows;
struct CudaSelectorRows;
struct CudaLayerSums;
class CudaCells;

/// What there must be for a metric to have an array in the results.
struct MetricNeeds {
  bool estimate = false;  ///< the selector has an estimate
  bool scores = false;    ///< and it is in natural-log units
  bool spans = false;     ///< the sample has spans
  bool sinks = false;     ///< the layer has learned sinks
};

// A metric's functions, one kind per scope. A CUDA function may fill the cells of several metrics in one pass: the rows
// of all of them name it, and it is called once. `cuda` is null where a metric has no CUDA code.

/// Of the exact scores alone: one value per row, [N, Hq].
struct ScoreFunctions {
  double (*cpu)(const ExactRow&) = nullptr;
  void (*cuda)(const CudaExactRows&, const CudaCells&) = nullptr;
};

/// Of one selector. `out` has one element per setting (ascending), one per lambda, or one alone, as the axes say.
struct SelectorFunctions {
  void (*cpu)(const SelectorRow&, std::span<double> out) = nullptr;
  void (*cuda)(const CudaSelectorRows&, const CudaCells&) = nullptr;
};

/// What each head adds to a metric of the whole layer.
using HeadSums = std::array<double, 3>;

/// Of all query heads of a layer together: [N, S]. The sums of the heads are added up in ascending order, then
/// combined.
struct LayerFunctions {
  HeadSums (*of_head)(const SelectorRow&, int setting) = nullptr;
  double (*combine)(const HeadSums& total) = nullptr;
  void (*cuda)(const CudaSelectorRows&, const CudaCells&) = nullptr;  ///< writes every head's sums
  void (*cuda_combine)(const CudaLayerSums&) = nullptr;
};

/// A column of the summary at the end of a run: a statistic over all cells of one selector and setting.
struct SummaryColumn {
  enum class Statistic : std::uint8_t { mean, min, max };
  Statistic statistic;
  std::string_view key;      ///< in JSON
  std::string_view heading;  ///< of the printed table
};

struct Metric {
  MetricInfo info;
  MetricNeeds needs;
  std::variant<ScoreFunctions, SelectorFunctions, LayerFunctions> functions;
  std::span<const SummaryColumn> summary{};

  bool of_scores() const { return std::holds_alternative<ScoreFunctions>(functions); }
  bool has_cuda_code() const;
};

/// All metrics of every selector, and of the exact scores. Selectors define further ones (Selector::own_metrics()).
std::span<const Metric> all_metrics();

/// Null for a name that is not in the table.
const Metric* find_metric(std::string_view name);

}  // namespace attest
