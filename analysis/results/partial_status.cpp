// Reads study.json and looks which files of finished units are there.
#include "analysis/results/partial_status.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "analysis/results/partial_results.h"
#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/json_text.h"

namespace attest {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;  // of study.json; 1000 samples take some 100 KB

std::string read_text(const std::string& path) {
  const InputFile file(path);
  if (file.size() > kMostBytes)
    throw InputError(fmt::format("{}: has {} bytes, expected at most {}", path, file.size(), kMostBytes));
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::int64_t count(const std::vector<PartialStatus::Sample>& samples,
                   std::vector<std::int64_t> PartialStatus::Sample::*layers) {
  std::int64_t sum = 0;
  for (const PartialStatus::Sample& sample : samples) sum += static_cast<std::int64_t>((sample.*layers).size());
  return sum;
}

}  // namespace

std::int64_t PartialStatus::num_layers() const { return count(samples, &Sample::layers); }
std::int64_t PartialStatus::num_finished() const { return count(samples, &Sample::finished); }

PartialStatus read_partial_status(const std::string& folder) {
  if (!PartialResults::exists(folder))
    throw InputError(
        fmt::format("{}: is a folder without a study.json, expected a file, or the folder of an unfinished study "
                    "(RESULTS.partial)",
                    folder));
  const std::string path = (std::filesystem::path(folder) / "study.json").string();
  PartialStatus status{.folder = folder, .begun = {}, .program = {}, .device = {}, .selectors = {}, .samples = {}};
  try {
    const std::optional<nlohmann::json> document = parse_json(read_text(path));
    if (!document)
      throw InputError(fmt::format("{}: is damaged, expected JSON of at most {} levels", path, kMostJsonLevels));
    const nlohmann::json& study = document->at("study");
    status.begun = document->at("begun");
    status.program =
        fmt::format("{}, commit {}", study.at("program").get<std::string>(), study.at("git_commit").get<std::string>());
    status.device = study.at("device");
    for (const nlohmann::json& selector : study.at("selectors")) status.selectors.push_back(selector.at("label"));
    const std::set<UnitKey> stored = PartialResults::unit_files(folder);
    const nlohmann::json& dumps = study.at("dumps");
    for (std::size_t d = 0; d < dumps.size(); ++d) {
      const nlohmann::json& samples = dumps[d].at("samples");
      for (std::size_t s = 0; s < samples.size(); ++s) {
        PartialStatus::Sample sample{.dump = dumps[d].at("path"),
                                     .name = samples[s].at("name"),
                                     .layers = samples[s].at("layers"),
                                     .finished = {}};
        for (const std::int64_t layer : sample.layers)
          if (stored.contains({d, s, static_cast<int>(layer)})) sample.finished.push_back(layer);
        status.samples.push_back(std::move(sample));
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: is damaged ({})", path, error.what()));
  }
  return status;
}

}  // namespace attest
