// Compares size, content hash or modification time with those of a manifest.
#include "analysis/run/study_input.h"

#include <fmt/core.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <vector>

#include "analysis/run/input_hashes.h"
#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/utc_time.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

std::string modified(const InputStatus& status) {
  return utc_time(std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::nanoseconds(status.modified_ns))));
}

FoundInput compare(const std::string& path, const Json& input, const std::string& end_time, int threads,
                   std::uint64_t max_hashed_bytes) {
  FoundInput found;
  try {
    const InputStatus status = input_status(path);
    const std::string hash = input[kContentHashName].text_or("");
    if (input["bytes"] != status.bytes) {
      found.problem = fmt::format("{} has changed since the study: it has {} bytes", path, status.bytes);
    } else if (status.bytes <= max_hashed_bytes && !hash.empty()) {
      found.hashed = true;
      if (content_hashes({path}, threads).front() != hash)
        found.problem = fmt::format("{} has changed since the study", path);
    } else if (end_time.empty()) {
      found.problem =
          fmt::format("{}: whether it has changed cannot be told, since the manifest has no end of the study", path);
    } else if (modified(status) > end_time) {
      found.problem = fmt::format("{} was modified after the study and {}", path,
                                  hash.empty() ? "has no hash in the manifest" : "is too large to be hashed here");
    }
  } catch (const InputError& error) {
    found.problem = error.what();
  }
  if (found.problem.empty()) found.path = path;
  return found;
}

}  // namespace

FoundInput find_input(const std::string& manifest, std::size_t dump, const std::string& results_path, int threads,
                      std::uint64_t max_hashed_bytes) {
  const Json document = parsed_json(manifest).value_or(nullptr);
  const Json& input = document["inputs"][dump];
  const std::string as_given = input["path"].text_or("");
  const std::string absolute = document["configuration"]["dumps"][dump]["path"].text_or("");
  if (as_given.empty()) return {.path = {}, .problem = "the results' manifest does not name their dump"};
  FoundInput first;
  for (const std::string& path : {absolute.empty() ? as_given : absolute,
                                  (fs::path(results_path).parent_path() / fs::path(as_given).filename()).string()}) {
    FoundInput found = compare(path, input, document["end_time"].text_or(""), threads, max_hashed_bytes);
    if (!found.path.empty()) return found;
    if (first.problem.empty()) first = std::move(found);
  }
  return first;
}

}  // namespace attest
