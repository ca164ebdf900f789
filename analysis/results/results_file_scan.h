// What a results file holds but for its values, read from untrusted HDF5: the half of ResultsFile that runs in a
// guarded child.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace attest {

/// {manifest, dumps: [{path, model, num_layers, num_query_heads, num_kv_heads, head_dim, value_dim, samples: [{name,
/// task, num_tokens, layers, query_positions, scores: METRICS, selectors: [{label, selector, setting, options,
/// settings, setting_labels, lambdas, dense, done, metrics: METRICS}]}]}]}, where METRICS maps a name to {axes,
/// offset}: where its values lie in the file, -1 when HDF5 must decode them. Every shape has been checked. Throws
/// InputError.
nlohmann::json scan_results_file(const std::string& path);

}  // namespace attest
