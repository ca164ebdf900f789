// Writes links into the map.
#include "experiments/report/map_link.h"

#include <fmt/core.h>

#include <string_view>

namespace attest {
namespace {

/// RFC 3986: all but unreserved characters as %XX.
std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    if (plain)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

}  // namespace

std::string map_link(const MapLink& link) {
  std::string text;
  const auto add = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) text += fmt::format("{}{}={}", text.empty() ? "" : "&", key, percent_encoded(value));
  };
  add("model", link.model);
  add("metric", link.metric);
  add("statistic", link.statistic);
  add("selector", link.selector);
  add("setting", link.setting);
  add("order", link.order);
  if (link.layer) add("layer", std::to_string(*link.layer));
  if (link.head) add("head", std::to_string(*link.head));
  return text;
}

}  // namespace attest
