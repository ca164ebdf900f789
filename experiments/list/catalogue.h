// What `attest list` prints: every selector, metric and experiment, as JSON and as text made from that JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dumps/base/json.h"

namespace attest {

/// {selectors: [...], metrics: [...], experiments: [...]}. A selector's entry holds the metrics that it alone has; the
/// others are in `metrics`.
Json catalogue();

/// The entry of a selector, metric or experiment, with its `kind`. Throws UsageError for an unknown name, with the
/// nearest ones.
Json catalogue_entry(const Json& catalogue, std::string_view name);

/// The names that --only of `attest figures` and `attest report` takes.
std::vector<std::string> experiment_names();

std::string catalogue_text(const Json& catalogue);
std::string entry_text(const Json& entry);

}  // namespace attest
