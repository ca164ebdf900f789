// Reads everything but the values from an untrusted results file. This part of ResultsFile runs in a guarded child
// process.
#pragma once

#include <string>

#include "dumps/base/json.h"

namespace attest {

/// {manifest, dumps: [{path, model, num_layers, num_query_heads, num_kv_heads, head_dim, value_dim, values_in_keys,
/// engine, kv_cache, samples: [{name, task, num_tokens, document, layers, query_positions, span_tokens, margin, scores:
/// METRICS, selectors: [{label, selector, setting, options, settings, setting_labels, lambdas, span_tokens, dense,
/// done, metrics: METRICS}]}]}]}, where only some samples have a document, empty lists stand for what is missing and
/// METRICS maps a name to {axes, offset}; `offset` is the position of the values in the file in bytes, -1 if HDF5 must
/// decode them. Every shape has been checked. Throws InputError.
Json scan_results_file(const std::string& path);

}  // namespace attest
