// Edits of JSON documents in tests.
#pragma once

#include <string>
#include <string_view>

#include "dumps/base/json.h"

namespace attest {

/// The value at a place, "/layers/13/default" or "/measurements/0"; members that are missing are added.
inline Json& json_at(Json& document, std::string_view place) {
  if (place.empty()) return document;
  const std::size_t end = std::min(place.find('/', 1), place.size());
  const std::string name(place.substr(1, end - 1));
  Json& inner = document.is_array() ? document.elements().at(std::stoul(name)) : document[name];
  return json_at(inner, place.substr(end));
}

inline void remove_member(Json& object, std::string_view name) {
  std::erase_if(object.members(), [&](const JsonMember& member) { return member.name == name; });
}

}  // namespace attest
