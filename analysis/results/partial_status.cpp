// Reads study.json and looks which files of finished units are there.
#include "analysis/results/partial_status.h"

#include <fmt/core.h>

#include <filesystem>
#include <limits>
#include <set>

#include "analysis/results/partial_results.h"
#include "dumps/base/error.h"
#include "dumps/base/json_place.h"

namespace attest {
namespace {

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
  const std::string path = (std::filesystem::path(folder) / kStudyFile).string();
  PartialStatus status{.folder = folder, .begun = {}, .program = {}, .device = {}, .selectors = {}, .samples = {}};
  const Json json = read_json_object(path, "the description of a study");
  const JsonPlace document(json, path), study = document["study"];
  status.begun = document["begun"].text();
  status.program = fmt::format("{}, commit {}", study["program"].text(), study["git_commit"].text());
  status.device = study["device"].text();
  for (const JsonPlace& selector : study["selectors"].elements()) status.selectors.push_back(selector["label"].text());
  const std::set<UnitKey> stored = PartialResults::unit_files(folder);
  std::size_t d = 0;
  for (const JsonPlace& dump : study["dumps"].elements()) {
    std::size_t s = 0;
    for (const JsonPlace& place : dump["samples"].elements()) {
      PartialStatus::Sample sample{
          .dump = dump["path"].text(), .name = place["name"].text(), .layers = {}, .finished = {}};
      for (const JsonPlace& layer : place["layers"].elements()) {
        sample.layers.push_back(layer.whole(0, std::numeric_limits<int>::max()));
        if (stored.contains({d, s, static_cast<int>(sample.layers.back())}))
          sample.finished.push_back(sample.layers.back());
      }
      status.samples.push_back(std::move(sample));
      ++s;
    }
    ++d;
  }
  return status;
}

}  // namespace attest
