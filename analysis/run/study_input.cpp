// Compares size, content hash or modification time with those of a manifest.
#include "analysis/run/study_input.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "analysis/run/input_hashes.h"
#include "dumps/base/error.h"
#include "dumps/base/json_text.h"
#include "dumps/base/utc_time.h"

namespace attest {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

std::string text_at(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>()
                                                                               : std::string();
}

/// Element `index` of the list `key`; null if there is none.
json element(const json& object, const char* key, std::size_t index) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_array() || index >= object[key].size()) return {};
  return object[key][index];
}

std::string content_hash(const InputStatus& status) {
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  InputHashes hashes({status}, threads);
  while (true)
    if (const std::vector<std::string>* done = hashes.wait(std::chrono::seconds(1))) return done->front();
}

std::string modified(const InputStatus& status) {
  return utc_time(std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::nanoseconds(status.modified_ns))));
}

FoundInput compare(const std::string& path, const json& input, const std::string& end_time,
                   std::uint64_t most_hashed_bytes) {
  FoundInput found;
  try {
    const InputStatus status = input_status(path);
    const std::string hash = text_at(input, kContentHashName);
    if (!input.contains("bytes") || input["bytes"] != status.bytes) {
      found.problem = fmt::format("{} has changed since the study: it has {} bytes", path, status.bytes);
    } else if (status.bytes <= most_hashed_bytes && !hash.empty()) {
      found.hashed = true;
      if (content_hash(status) != hash) found.problem = fmt::format("{} has changed since the study", path);
    } else if (end_time.empty() || modified(status) > end_time) {
      found.problem = fmt::format("{} was modified after the study and is too large to be hashed here", path);
    }
  } catch (const InputError& error) {
    found.problem = error.what();
  }
  if (found.problem.empty()) found.path = path;
  return found;
}

}  // namespace

FoundInput find_input(const std::string& manifest, std::size_t dump, const std::string& results_path,
                      std::uint64_t most_hashed_bytes) {
  const std::optional<json> document = parse_json(manifest);
  const json input = document ? element(*document, "inputs", dump) : json();
  const json planned = document && document->is_object() && document->contains("configuration")
                           ? element((*document)["configuration"], "dumps", dump)
                           : json();
  const std::string as_given = text_at(input, "path"), absolute = text_at(planned, "path");
  if (as_given.empty()) return {.path = {}, .problem = "the results' manifest does not name their dump"};
  FoundInput first;
  for (const std::string& path : {absolute.empty() ? as_given : absolute,
                                  (fs::path(results_path).parent_path() / fs::path(as_given).filename()).string()}) {
    FoundInput found = compare(path, input, text_at(*document, "end_time"), most_hashed_bytes);
    if (!found.path.empty()) return found;
    if (first.problem.empty()) first = std::move(found);
  }
  return first;
}

}  // namespace attest
