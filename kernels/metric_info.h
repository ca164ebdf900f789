// What a metric is called and how its numbers are to be read. Layout, results, tables and documents follow from this.
#pragma once

#include <cstdint>
#include <string_view>

namespace attest {

/// The axes of a metric within one layer: N queries, Hq query heads, S settings, M lambdas.
enum class MetricAxes : std::uint8_t {
  query_head,          ///< [N, Hq]
  query_head_setting,  ///< [N, Hq, S]
  query_head_lambda,   ///< [N, Hq, M]
  query_setting,       ///< [N, S]
};

/// Which way a metric gets better. `neither`: it describes, and judges nothing.
enum class Better : std::uint8_t { higher, lower, neither };

struct MetricInfo {
  std::string_view name;  ///< of its array in a results file
  MetricAxes axes = MetricAxes::query_head;
  std::string_view unit;  ///< "nats", "ratio", ...
  Better better = Better::neither;
  std::string_view definition;  ///< one line; the formula stands in the metric's own file
};

}  // namespace attest
