// The list of metrics. A metric consists of a row of the table in metric.cpp and of the files of its functions. The
// layout of results, the work of a study on either device, summaries, `attest list` and the tables in
// analysis/README.md are derived from the rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "analysis/metrics/rows.h"
#include "kernels/base/metric_info.h"

namespace attest {

// Defined in rows_cuda.h, which needs the CUDA headers.
struct CudaExactRows;
struct CudaSelectorRows;
struct CudaLayerSums;
struct CudaSpanTokens;
class CudaCells;

/// Conditions under which a metric has an array in the results.
struct MetricNeeds {
  bool estimate = false;         ///< the selector has an estimate
  bool scores = false;           ///< and the estimate is in natural-log units
  bool spans = false;            ///< the sample has spans
  bool few_span_tokens = false;  ///< their union has 1 to kMaxSpanTokens tokens
  bool sinks = false;            ///< the layer has learned sinks
  bool weights = false;          ///< the layer has head gradients
  bool gradients = false;        ///< the layer has output gradients
};

// The functions of a metric, one struct per kind of metric. A CUDA function may fill the cells of several metrics in
// one pass: the rows of all these metrics name it, and it is called once. `cuda` is null if a metric has no CUDA code.

/// A metric of the exact scores alone: one value per row, [N, Hq].
struct ScoreFunctions {
  double (*cpu)(const ExactRow&) = nullptr;
  void (*cuda)(const CudaExactRows&, const CudaCells&) = nullptr;
};

/// A metric of one selector. Depending on the axes, `out` has one element per setting (ascending), one per lambda, or a
/// single element.
struct SelectorFunctions {
  void (*cpu)(const SelectorRow&, std::span<double> out) = nullptr;
  void (*cuda)(const CudaSelectorRows&, const CudaCells&) = nullptr;
};

/// Sums that one head contributes to a metric of the whole layer.
using HeadSums = std::array<double, 3>;

/// A metric of all query heads of a layer together: [N, S]. The heads' sums are added in ascending order of the heads,
/// then combined.
struct LayerFunctions {
  HeadSums (*of_head)(const SelectorRow&, int setting) = nullptr;
  double (*combine)(const HeadSums& total) = nullptr;
  void (*cuda)(const CudaSelectorRows&, const CudaCells&) = nullptr;  ///< writes every head's sums
  void (*cuda_combine)(const CudaLayerSums&) = nullptr;
};

/// A metric of the span tokens that the query heads of a layer keep together (span_tokens.h): [N, S] or [N, S, T].
struct SpanTokenFunctions {
  /// The metric of one query and setting. `heads`: [T] number of heads that keep each token, NaN where the query does
  /// not see it.
  void (*cpu)(std::span<const float> heads, std::span<float> out) = nullptr;
  void (*cuda)(const CudaSelectorRows&, const CudaCells&) = nullptr;  ///< sets the bits of every head
  void (*cuda_combine)(const CudaSpanTokens&) = nullptr;
};

/// A column of the summary that a run prints: a statistic over all cells of one selector and setting.
struct SummaryColumn {
  enum class Statistic : std::uint8_t { mean, min, max };
  Statistic statistic;
  std::string_view key;      ///< key in JSON
  std::string_view heading;  ///< heading in the printed table
};

struct Metric {
  MetricInfo info;
  MetricNeeds needs;
  std::variant<ScoreFunctions, SelectorFunctions, LayerFunctions, SpanTokenFunctions> functions;
  std::span<const SummaryColumn> summary{};

  bool of_scores() const { return std::holds_alternative<ScoreFunctions>(functions); }
  bool has_cuda_code() const;
};

/// The metrics that all selectors share, and those of the exact scores. A selector may define more
/// (Selector::own_metrics()).
std::span<const Metric> all_metrics();

/// Null for a name that is not in the table.
const Metric* find_metric(std::string_view name);

}  // namespace attest
