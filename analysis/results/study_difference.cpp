// Compares the JSON of two studies.
#include "analysis/results/study_difference.h"

#include <fmt/format.h>

#include <algorithm>

#include "dumps/base/printable.h"

namespace attest {
namespace {

using nlohmann::json;

std::string first_difference(const std::string& at, const json& begun, const json& now) {
  if (begun == now) return "";
  std::string difference;
  const auto compare = [&](const auto& key, const json& a, const json& b) {
    if (difference.empty()) difference = first_difference(fmt::format("{}{}{}", at, at.empty() ? "" : "/", key), a, b);
  };
  if (begun.is_object() && now.is_object()) {
    json keys = begun;
    keys.update(now);
    for (const auto& [key, unused] : keys.items()) compare(key, begun.value(key, json()), now.value(key, json()));
  } else if (begun.is_array() && now.is_array()) {
    const auto element = [](const json& array, std::size_t i) { return i < array.size() ? array[i] : json(); };
    for (std::size_t i = 0; i < std::max(begun.size(), now.size()); ++i) compare(i, element(begun, i), element(now, i));
  }
  if (!difference.empty()) return difference;
  const auto text = [](const json& value) { return excerpt(value.is_null() ? "absent" : value.dump(-1, ' ', true)); };
  return fmt::format("{} = {}, this command has {}", excerpt(at), text(begun), text(now));
}

}  // namespace

std::string study_difference(const json& one, const json& this_command) {
  return first_difference("", one, this_command);
}

}  // namespace attest
