// Compares the JSON of two studies.
#include "analysis/results/study_difference.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

/// Of lists whose elements are no objects the whole is shown: layers, settings.
bool are_lists_of_objects(const Json& a, const Json& b) {
  const auto of_objects = [](const Json& list) {
    return list.is_array() && std::ranges::all_of(list.elements(), &Json::is_object);
  };
  return of_objects(a) && of_objects(b) && !(a.empty() && b.empty());
}

/// "selectors" and 0: "selector 1".
std::string element_name(std::string_view list, std::size_t index) {
  return fmt::format("{} {}", list.ends_with('s') ? list.substr(0, list.size() - 1) : list, index + 1);
}

/// `at`: the words before it; `name`: of this value.
std::string first_difference(const std::string& at, const std::string& name, const Json& begun, const Json& now) {
  if (begun == now) return "";
  std::string difference;
  const auto compare = [&](const std::string& before, const std::string& key, const Json& a, const Json& b) {
    if (difference.empty()) difference = first_difference(before, key, a, b);
  };
  const auto inside = [&](const std::string& last) { return last.empty() ? at : at + last + ", "; };
  if (begun.is_object() && now.is_object()) {
    Json all = begun;
    all.update(now);
    for (const JsonMember& member : all.sort().members())
      compare(inside(name), member.name, begun[member.name], now[member.name]);
  } else if (are_lists_of_objects(begun, now)) {
    for (std::size_t i = 0; i < std::max(begun.size(), now.size()); ++i)
      compare(at, element_name(name, i), begun[i], now[i]);
  }
  if (!difference.empty()) return difference;
  const auto text = [](const Json& value) {
    return value.is_null() ? "none" : excerpt(value.dump(-1, JsonCharacters::ascii));
  };
  return fmt::format("{} = {}, this command has {}", excerpt(at + name), text(begun), text(now));
}

Json without_paths(Json study) {
  for (const char* const list : {"dumps", "files"})
    if (study.contains(list) && study[list].is_array())
      for (Json& input : study[list].elements())
        if (input.is_object())
          std::erase_if(input.members(), [](const JsonMember& member) { return member.name == "path"; });
  return study;
}

}  // namespace

std::uint64_t study_identity(const std::string& study_json) {
  const std::string text = without_paths(parse_json(study_json)).sort().dump();
  return hash_of(std::as_bytes(std::span(text)));
}

bool is_same_study(const Json& one, const Json& other) { return without_paths(one) == without_paths(other); }

void require_same_study(const StudySource& source, const Json& begun, const Json& now) {
  const Json before = without_paths(begun), here = without_paths(now);
  if (before == here) return;
  for (const char* const list : {"dumps", "files"}) {
    for (std::size_t i = 0; i < now[list].size(); ++i) {
      const Json &input = now[list][i], &other = begun[list][i];
      if (other.is_object() && input[kSampledHashName].text_or("") != other[kSampledHashName].text_or(""))
        throw InputError(fmt::format(
            "cannot resume '{}': {} began the study with another '{}' than {} reads, of other content; "
            "start over with --force instead of --resume",
            source.folder, excerpt(source.begun_by), excerpt(input["path"].text_or("")), source.this_process));
    }
  }
  throw UsageError(
      fmt::format("cannot resume '{}': it was started with {}; start over with --force instead of --resume",
                  source.folder, study_difference(before, here)));
}

std::string study_difference(const Json& one, const Json& this_command) {
  return first_difference("", "", one, this_command);
}

}  // namespace attest
