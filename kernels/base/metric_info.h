// Name, axes, unit and direction of a metric. Result arrays, tables and documents are generated from this. It is here,
// and not with the metrics of analysis/, because a selector describes its own metrics with it.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace attest {

/// The axes of a metric within one layer: N queries, Hq query heads, S settings, M lambdas, T tokens of
/// the sample's spans.
enum class MetricAxes : std::uint8_t {
  query_head,           ///< [N, Hq]
  query_head_setting,   ///< [N, Hq, S]
  query_head_lambda,    ///< [N, Hq, M]
  query_setting,        ///< [N, S]
  query_setting_token,  ///< [N, S, T]
};

/// Whether higher or lower values are better. `neither`: the metric is descriptive.
enum class Better : std::uint8_t { higher, lower, neither };

/// The values that a metric can have where it was computed. Bounds hold up to the rounding of float32.
struct MetricRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool may_be_nan = true;        ///< it is not defined for every row
  bool may_be_infinite = false;  ///< within the bounds: an estimate may be -inf
};

struct MetricInfo {
  std::string_view name;  ///< of its array in a results file
  MetricAxes axes = MetricAxes::query_head;
  std::string_view unit;  ///< "nats", "ratio", ...
  Better better = Better::neither;
  std::string_view definition;  ///< one line; the formula is in the metric's own file
  MetricRange range{};
  std::string_view source{};  ///< where it comes from: a paper's section, or "attest"
  bool is_cost = false;       ///< what is kept or read, a share of all: lower is cheaper, and less faithful
};

}  // namespace attest
