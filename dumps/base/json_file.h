// JSON objects in untrusted files.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace attest {

/// The object in a file. `what`: "a recommendation". Throws InputError if the file is missing, larger than
/// `most_bytes`, no JSON object, deeper than kMostJsonLevels, or has a name twice in one object.
nlohmann::json read_json_object(const std::string& path, std::string_view what, std::uint64_t most_bytes);

/// A value as it stands in the file, for messages: "an object", "a list", 5, "text".
std::string found_text(const nlohmann::json& value);

/// A place in a document, for messages: "layers.13"; `place` may be empty.
std::string inside(std::string_view place, std::string_view name);

}  // namespace attest
