// JSON from untrusted files.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace attest {

/// Levels of an untrusted JSON text. Comparing, copying and printing values takes stack for each level.
inline constexpr int kMostJsonLevels = 64;

/// Nothing if the text is not JSON or has more than kMostJsonLevels. `observe(event, value)` is called with the events
/// of the parser.
template <class Json = nlohmann::json, class Observe>  // or nlohmann::ordered_json
std::optional<Json> parse_json(std::string_view text, Observe&& observe) {
  bool too_deep = false;
  const auto look = [&](int depth, typename Json::parse_event_t event, Json& value) {
    too_deep = too_deep || depth > kMostJsonLevels;
    if (!too_deep) observe(event, value);
    return !too_deep;
  };
  Json value = Json::parse(text, look, false);
  if (too_deep || value.is_discarded()) return std::nullopt;
  return value;
}
template <class Json = nlohmann::json>
std::optional<Json> parse_json(std::string_view text) {
  return parse_json<Json>(text, [](typename Json::parse_event_t, Json&) {});
}

}  // namespace attest
