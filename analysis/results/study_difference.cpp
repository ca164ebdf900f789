// Compares the JSON of two studies.
#include "analysis/results/study_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "dumps/base/printable.h"

namespace attest {
namespace {

using nlohmann::json;

/// Of lists whose elements are no objects the whole is shown: layers, settings.
bool are_lists_of_objects(const json& a, const json& b) {
  const auto of_objects = [](const json& list) {
    return list.is_array() && std::ranges::all_of(list, [](const json& element) { return element.is_object(); });
  };
  return of_objects(a) && of_objects(b) && !(a.empty() && b.empty());
}

/// "selectors" and 0: "selector 1".
std::string element_name(std::string_view list, std::size_t index) {
  return fmt::format("{} {}", list.ends_with('s') ? list.substr(0, list.size() - 1) : list, index + 1);
}

/// `at`: the words before it; `name`: of this value.
std::string first_difference(const std::string& at, const std::string& name, const json& begun, const json& now) {
  if (begun == now) return "";
  std::string difference;
  const auto compare = [&](const std::string& before, const std::string& key, const json& a, const json& b) {
    if (difference.empty()) difference = first_difference(before, key, a, b);
  };
  const auto inside = [&](const std::string& last) { return last.empty() ? at : at + last + ", "; };
  if (begun.is_object() && now.is_object()) {
    json keys = begun;
    keys.update(now);
    for (const auto& [key, unused] : keys.items())
      compare(inside(name), key, begun.value(key, json()), now.value(key, json()));
  } else if (are_lists_of_objects(begun, now)) {
    const auto element = [](const json& array, std::size_t i) { return i < array.size() ? array[i] : json(); };
    for (std::size_t i = 0; i < std::max(begun.size(), now.size()); ++i)
      compare(at, element_name(name, i), element(begun, i), element(now, i));
  }
  if (!difference.empty()) return difference;
  const auto text = [](const json& value) { return value.is_null() ? "none" : excerpt(value.dump(-1, ' ', true)); };
  return fmt::format("{} = {}, this command has {}", excerpt(at + name), text(begun), text(now));
}

}  // namespace

std::string study_difference(const json& one, const json& this_command) {
  return first_difference("", "", one, this_command);
}

}  // namespace attest
