// Reads a JSON object, and finds names that it has twice while it is parsed.
#include "dumps/base/json_file.h"

#include <fmt/format.h>

#include <set>
#include <span>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/json_text.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

using nlohmann::json;

/// Finds a name that an object has twice, of which a parsed document keeps one. Names of lists' elements count as those
/// of the list.
class RepeatedName {
 public:
  void operator()(json::parse_event_t event, json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
        objects_.emplace_back();
        break;
      case json::parse_event_t::object_end:
        objects_.pop_back();
        break;
      case json::parse_event_t::key: {
        auto& [names, current] = objects_.back();
        current = value.get_ref<const std::string&>();
        if (!names.insert(current).second && found_.empty())
          for (const Object& object : objects_) found_ = inside(found_, object.current);
        break;
      }
      default:
        break;
    }
  }
  /// Its place; empty if there is none.
  const std::string& found() const { return found_; }

 private:
  struct Object {
    std::set<std::string> names;
    std::string current;
  };
  std::vector<Object> objects_;
  std::string found_;
};

}  // namespace

std::string found_text(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return excerpt(value.dump(-1, ' ', false, json::error_handler_t::replace), 60);
}

std::string inside(std::string_view place, std::string_view name) {
  return place.empty() ? excerpt(name, 60) : fmt::format("{}.{}", place, excerpt(name, 60));
}

json read_json_object(const std::string& path, std::string_view what, std::uint64_t most_bytes) {
  const InputFile file(path);
  if (file.size() > most_bytes)
    throw InputError(fmt::format("{}: has {} bytes, expected {} of at most {}", path, file.size(), what, most_bytes));
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  RepeatedName repeated;
  std::optional<json> document =
      parse_json(text, [&](json::parse_event_t event, json& value) { repeated(event, value); });
  if (!document)
    throw InputError(
        fmt::format("{}: expected {} in JSON of at most {} levels, found other text", path, what, kMostJsonLevels));
  if (!document->is_object())
    throw InputError(fmt::format("{}: expected {}, a JSON object, found {}", path, what, found_text(*document)));
  if (!repeated.found().empty())
    throw InputError(fmt::format("{}: {} is there twice, expected once", path, repeated.found()));
  return *std::move(document);
}

}  // namespace attest
