// What `attest list` prints: every selector, metric and experiment, as JSON and as text made from that JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace attest {

/// {selectors: [...], metrics: [...], experiments: [...]}. A selector's entry holds the metrics that it alone has; the
/// others are in `metrics`.
nlohmann::ordered_json catalogue();

/// The entry of a selector, metric or experiment, with its `kind`. Throws UsageError for an unknown name, with the
/// nearest ones.
nlohmann::ordered_json catalogue_entry(const nlohmann::ordered_json& catalogue, std::string_view name);

std::string catalogue_text(const nlohmann::ordered_json& catalogue);
std::string entry_text(const nlohmann::ordered_json& entry);

}  // namespace attest
