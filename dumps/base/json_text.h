// JSON from untrusted files.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace attest {

/// Levels of an untrusted JSON text. Comparing, copying and printing values takes stack for each level.
inline constexpr int kMostJsonLevels = 64;

/// Nothing if the text is not JSON or has more than kMostJsonLevels.
inline std::optional<nlohmann::json> parse_json(std::string_view text) {
  bool too_deep = false;
  const auto look = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep = too_deep || depth > kMostJsonLevels;
    return !too_deep;
  };
  nlohmann::json value = nlohmann::json::parse(text, look, false);
  if (too_deep || value.is_discarded()) return std::nullopt;
  return value;
}

}  // namespace attest
