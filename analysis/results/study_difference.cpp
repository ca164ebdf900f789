// Compares the JSON of two studies.
#include "analysis/results/study_difference.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "analysis/results/partial_results.h"
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

/// Takes program and commit out of a study: "attest 0.1.0, commit 0123abc".
std::string take_version(Json& study) {
  std::string text = fmt::format("attest {}, commit {}", excerpt(study["program"].text_or("unknown")),
                                 excerpt(study["git_commit"].text_or("unknown")));
  std::erase_if(study.members(),
                [](const JsonMember& member) { return member.name == "program" || member.name == "git_commit"; });
  return text;
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
  const std::string found = other_study_text(source.folder, kind_of_difference(begun, now));
  for (const char* const list : {"dumps", "files"}) {
    for (std::size_t i = 0; i < now[list].size(); ++i) {
      const Json &input = now[list][i], &other = begun[list][i];
      if (other.is_object() && input[kSampledHashName].text_or("") != other[kSampledHashName].text_or(""))
        throw OtherStudyError<InputError>(
            fmt::format("cannot resume '{}': {} began the study with another '{}' than {} reads, of other content; {}",
                        source.folder, excerpt(source.begun_by), excerpt(input["path"].text_or("")),
                        source.this_process, PartialResults::kStartOver),
            found);
    }
  }
  throw OtherStudyError<UsageError>(fmt::format("cannot resume '{}': it was started with {}; {}", source.folder,
                                                study_difference(before, here), PartialResults::kStartOver),
                                    found);
}

std::string other_study_text(const std::string& place, const std::string& difference) {
  return fmt::format("'{}' holds another study{}{}", place, difference.empty() ? "" : ", ", difference);
}

std::string kind_of_difference(const Json& one, const Json& this_command) {
  Json before = without_paths(one), here = without_paths(this_command);
  if (!before.is_object()) return "";
  const std::string made_by = take_version(before), own = take_version(here);
  const Json &a = before, &b = here;  // [] of these adds no member
  if (a == b) return made_by == own ? "" : fmt::format("of another version: {}, and this is {}", made_by, own);
  for (const char* const list : {"dumps", "files"}) {
    if (a[list].size() != b[list].size())
      return fmt::format("of other inputs: {} {}, this command has {}", a[list].size(), list, b[list].size());
    for (std::size_t i = 0; i < b[list].size(); ++i)
      if (b[list][i][kSampledHashName].text_or("") != a[list][i][kSampledHashName].text_or(""))
        return fmt::format("of other inputs: '{}' has other content",
                           excerpt(this_command[list][i]["path"].text_or("")));
  }
  return "of other options: " + study_difference(before, here);
}

std::string study_difference(const Json& one, const Json& this_command) {
  return first_difference("", "", one, this_command);
}

}  // namespace attest
