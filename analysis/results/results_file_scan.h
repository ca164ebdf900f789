// What a results file holds but for its values, read from untrusted HDF5: the half of ResultsFile that runs in a
// guarded child.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "analysis/results/study_results.h"

namespace attest {

/// Lengths of the axes of one sample's metrics.
struct AxisSizes {
  std::int64_t layers = 0, queries = 0, heads = 0, settings = 0, lambdas = 0;

  std::vector<std::int64_t> shape(MetricAxes axes) const {
    switch (axes) {
      case MetricAxes::query_head:
        return {layers, queries, heads};
      case MetricAxes::query_head_setting:
        return {layers, queries, heads, settings};
      case MetricAxes::query_head_lambda:
        return {layers, queries, heads, lambdas};
      case MetricAxes::query_setting:
        return {layers, queries, settings};
    }
    throw std::logic_error("unknown axes");
  }
};

/// {manifest, dumps: [{path, model, num_layers, num_query_heads, num_kv_heads, head_dim, value_dim, samples: [{name,
/// task, num_tokens, layers, query_positions, scores: METRICS, selectors: [{label, selector, setting, options,
/// settings, setting_labels, lambdas, dense, done, metrics: METRICS}]}]}]}, where METRICS maps a name to {axes,
/// offset}: where its values lie in the file, -1 when HDF5 must decode them. Every shape has been checked. Throws
/// InputError.
nlohmann::json scan_results_file(const std::string& path);

}  // namespace attest
