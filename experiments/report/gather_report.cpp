// Gathers a report: one model after the other, then experiments and manifests.
#include "experiments/report/gather_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dumps/base/error.h"
#include "dumps/base/json_text.h"
#include "dumps/base/printable.h"
#include "experiments/claims/claims_page.h"
#include "experiments/report/claims_section.h"
#include "experiments/report/experiment_sections.h"
#include "experiments/report/map_arrays.h"
#include "experiments/report/study_findings.h"
#include "experiments/report/validation_section.h"

namespace attest {
namespace {

using Json = nlohmann::json;

/// Text at a place of a manifest, which may hold anything; empty if there is none.
std::string text_at(const Json& manifest, const char* place) {
  const Json::json_pointer pointer(place);
  if (!manifest.is_structured() || !manifest.contains(pointer)) return {};
  const Json& value = manifest.at(pointer);
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_array() && std::ranges::all_of(value, [](const Json& v) { return v.is_string(); })) {
    std::string words;
    for (const Json& word : value) words += (words.empty() ? "" : " ") + printable(word.get<std::string>());
    return words;
  }
  return {};
}

void add_manifest(const ResultsFile& file, ReportData& data) {
  const Json manifest = parse_json(file.manifest()).value_or(Json());
  const auto fact = [&](std::string name, std::string value) {
    if (!value.empty()) data.facts.push_back({std::move(name), std::move(value)});
  };
  fact("Results", printable(file.path()));
  fact("Command", text_at(manifest, "/command_line"));
  const std::string version = text_at(manifest, "/program/version"), commit = text_at(manifest, "/program/git_commit");
  fact("Program", version.empty()
                      ? ""
                      : fmt::format("attest {}{}", version, commit.empty() ? "" : fmt::format(", commit {}", commit)));
  fact("Device", text_at(manifest, "/device"));
  fact("Precision", text_at(manifest, "/precision"));
  const std::string begun = text_at(manifest, "/start_time"), ended = text_at(manifest, "/end_time");
  fact("When", begun.empty() || ended.empty() ? begun : fmt::format("{} to {}", begun, ended));
  if (const Json::json_pointer inputs("/inputs");
      manifest.is_object() && manifest.contains(inputs) && manifest.at(inputs).is_array())
    for (const Json& input : manifest.at(inputs)) {
      const std::string hash = text_at(input, "/xxh64_of_1MiB");
      fact("Input",
           fmt::format("{}{}", text_at(input, "/path"), hash.empty() ? "" : fmt::format(" (xxh64_of_1MiB {})", hash)));
    }
  const std::string text =
      manifest.is_null() ? printable(file.manifest()) : manifest.dump(2, ' ', false, Json::error_handler_t::replace);
  data.manifests.push_back({fmt::format("Manifest of {}", printable(file.path())), text});
}

/// Layers that a study left out are in the manifest's `layers_left_out` and have no cells.
void add_left_out(ResultsFiles files, ReportData& data) {
  std::size_t left_out = 0;
  for (const ResultsFile* file : files)
    for (std::size_t d = 0; d < file->study().dumps.size(); ++d)
      for (std::size_t s = 0; s < file->study().dumps[d].samples.size(); ++s) {
        std::vector<std::uint8_t> missing(file->study().dumps[d].samples[s].layers.size());
        for (std::size_t i = 0; i < file->study().selectors.size(); ++i) {
          const std::vector<std::uint8_t>& done = file->done(d, s, i);
          for (std::size_t y = 0; y < done.size() && y < missing.size(); ++y) missing[y] |= done[y] == 0;
        }
        left_out += static_cast<std::size_t>(std::ranges::count(missing, 1));
      }
  if (left_out == 0) return;
  data.findings.push_back(
      {Severity::warning,
       fmt::format("The study left out {} layer{} of samples (--skip-bad-layers): nothing here covers "
                   "them.",
                   left_out, left_out == 1 ? "" : "s"),
       fmt::format("{} left out", left_out), "manifest"});
}

}  // namespace

ReportData gather_report(ResultsFiles files, const ReportOptions& options, const std::filesystem::path& folder) {
  const std::vector<ModelStudy> studies = split_studies(files);
  if (studies.empty()) throw InputError("the results hold no dump: there is nothing to report");
  ReportData data;
  std::string names;
  for (const ModelStudy& study : studies) {
    names += (names.empty() ? "" : ", ") + printable(study.model());
    data.studied += (data.studied.empty() ? "" : " ") + studied(files, study);
    add_map(files, study, data);
  }
  data.title = options.title.empty() ? fmt::format("Attention fidelity of {}", names) : printable(options.title);
  data.cells_note = fmt::format(
      "Listed are the {} worst of each selector by recall, by LSE error and by dropped mass, at the "
      "papers\u2019 settings where the study has them. Enough for {}: the setting that keeps least "
      "among those that give the cell this recall.",
      options.cells.most, data.enough_recall);
  for (std::size_t m = 0; m < studies.size(); ++m) add_worst_cells(files, studies[m], m, options.cells, data);
  add_left_out(files, data);
  for (std::size_t m = 0; m < studies.size(); ++m) add_study_findings(studies[m], m, data);
  ReportDrawing drawing{.folder = folder};
  if (options.validation) add_validation_sections(files, studies, *options.validation, drawing, data);
  const ExperimentOptions shared;
  add_experiment_sections(files, options.benches, options.tasks, options.only, shared, drawing, data);
  data.figures_note = fmt::format("{}", fmt::join(drawing.notes, " "));
  for (const ModelStudy& study : studies) add_claims_section(check_claims(study, *shared.scan_bounds), data);
  std::ranges::stable_sort(data.findings, std::greater{}, &ReportFinding::severity);
  for (const ResultsFile* file : files) add_manifest(*file, data);
  for (const KernelStudy& bench : options.benches) data.facts.push_back({"Bench", printable(bench.source())});
  for (const TasksFile& tasks : options.tasks) data.facts.push_back({"Answers", printable(tasks.path)});
  return data;
}

}  // namespace attest
