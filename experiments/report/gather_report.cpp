// Gathers a report: one model after the other, then experiments and manifests.
#include "experiments/report/gather_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "analysis/results/manifest_inputs.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "experiments/claims/claims_page.h"
#include "experiments/report/report_parts.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

/// A text of a manifest, or its words; empty if it is neither.
std::string text_of(const Json& value) {
  if (value.is_text()) return printable(value.text());
  if (!value.is_array() || !std::ranges::all_of(value.elements(), &Json::is_text)) return {};
  std::string words;
  for (const Json& word : value.elements()) words += (words.empty() ? "" : " ") + printable(word.text());
  return words;
}

void add_manifest(const ResultsFile& file, ReportData& data) {
  const Json manifest = parsed_json(file.manifest()).value_or(nullptr);
  const auto fact = [&](std::string name, std::string value) {
    if (!value.empty()) data.facts.push_back({std::move(name), std::move(value)});
  };
  fact("Results", printable(file.path()));
  fact("Command", text_of(manifest["command_line"]));
  const std::string version = text_of(manifest["program"]["version"]),
                    commit = text_of(manifest["program"]["git_commit"]);
  fact("Program", version.empty()
                      ? ""
                      : fmt::format("attest {}{}", version, commit.empty() ? "" : fmt::format(", commit {}", commit)));
  fact("Device", text_of(manifest["device"]));
  fact("Precision", text_of(manifest["precision"]));
  const std::string begun = text_of(manifest["start_time"]), ended = text_of(manifest["end_time"]);
  fact("When", begun.empty() || ended.empty() ? begun : fmt::format("{} to {}", begun, ended));
  for (const StudyDump& dump : file.study().dumps)
    if (!dump.engine.empty() || !dump.kv_cache.empty())
      fact("Engine", fmt::format("{}: {}", printable(dump.path), engine_in_words(dump.engine, dump.kv_cache)));
  for (const Json& input : manifest["inputs"]) {
    const std::string hash = text_of(input[kContentHashName]);
    fact("Input", fmt::format("{}{}", text_of(input["path"]),
                              hash.empty() ? "" : fmt::format(" ({} {})", kContentHashName, hash)));
  }
  const std::string text = manifest.is_null() ? printable(file.manifest()) : Json(manifest).sort().dump(2);
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
       fmt::format("The study left out {} layer{} of samples (--skip-bad-layers): nothing here covers them.", left_out,
                   left_out == 1 ? "" : "s"),
       fmt::format("{} left out", left_out), "manifest"});
}

/// Makes the experiments of `request`, draws their figures and adds a section for each, and their findings. What cannot
/// be made or drawn is said in `drawing.notes`.
void add_experiment_sections(const ExperimentInputs& inputs, const std::vector<ModelStudy>& studies,
                             const FigureRequest& request, ReportDrawing& drawing, ReportData& data) {
  const FigureReport report = make_all_experiments(inputs, studies, request);
  std::map<std::string, int> sections;
  for (const ExperimentMade& made : report.made) {
    const int number = ++sections[made.experiment];
    const std::string id = number == 1 ? made.experiment : fmt::format("{}-{}", made.experiment, number);
    PageSection section = result_section(made, id, data.models.size() > 1, drawing);
    // What quality_vs_io says about selectors at the papers' settings is among the findings of the study already.
    if (made.experiment != "quality_vs_io")
      std::ranges::copy_if(section.findings, std::back_inserter(data.findings),
                           [](const PageFinding& finding) { return finding.severity >= Severity::warning; });
    data.figures.push_back(std::move(section));
  }
  for (const ExperimentSkipped& s : report.skipped) drawing.note(fmt::format("Left out: {}.", s.text()));
}

/// Adds a section with the claims and contradictions of one study.
void add_claims_section(const ClaimsOfStudy& study, ReportData& data) {
  const auto earlier =
      std::ranges::count_if(data.figures, [](const PageSection& s) { return s.id.starts_with("claims"); });
  PageSection section{.id = earlier == 0 ? "claims" : fmt::format("claims-{}", earlier + 1),
                      .title = fmt::format("The paper's claims beside {}", printable(study.title)),
                      .note = "A claim holds or does not hold for these prompts; nothing is said about others."};
  section.tables.push_back({.title = "Claims", .table = claims_table(study.claims, "Claim")});
  section.tables.push_back(
      {.title = "Where the paper disagrees with itself", .table = claims_table(study.contradictions, "Statement")});
  data.figures.push_back(std::move(section));
}

/// A sentence on what was studied of one model.
std::string studied(const ModelStudy& study) {
  std::set<int> layers;
  std::set<std::string> tasks;
  std::int64_t shortest = -1, longest = 0;
  std::size_t queries = 0;
  int num_layers = 0;
  std::set<std::string> heads;  // several where dumps give one name to models of several shapes
  std::set<SampleKey> known;
  for (const PlacedSample& place : study.samples()) {
    const StudySample& s = place.study_sample();
    layers.insert(s.layers.begin(), s.layers.end());
    if (!s.task.empty()) tasks.insert(printable(s.task));
    shortest = shortest < 0 ? s.num_tokens : std::min(shortest, s.num_tokens);
    longest = std::max(longest, s.num_tokens);
    if (known.insert(place.key).second) queries += s.query_positions.size();
    num_layers = std::max(num_layers, place.study_dump().num_layers);
    const AttentionShape& shape = place.study_dump().shape;
    heads.insert(fmt::format("{} over {}", counted(shape.num_query_heads, "query head"),
                             counted(shape.num_kv_heads, "KV head")));
  }
  std::vector<std::string> names;
  for (const PooledSelector& selector : study.selectors())
    if (selector.group.name != "exact") names.push_back(printable(selector.group.label));
  const std::string compared =
      names.empty() ? "nothing" : fmt::format("{} ({})", counted(std::ssize(names), "selector"), join(names, ", "));
  const std::string lengths =
      shortest == longest ? fmt::format("{}", longest) : fmt::format("{} to {}", shortest, longest);
  return fmt::format("{}: {} against exact attention, on {} of {} tokens{}; {} of {}, {}, {} in all.",
                     printable(study.model()), compared, counted(study.num_samples(), "sample"), lengths,
                     tasks.empty() || tasks.size() > 8 ? "" : fmt::format(" ({})", join(tasks, ", ")), layers.size(),
                     counted(num_layers, "layer"), join(heads, " and "),
                     queries == 1 ? "1 query" : fmt::format("{} queries", queries));
}

}  // namespace

ReportData gather_report(const ExperimentInputs& inputs, const ReportOptions& options,
                         const std::filesystem::path& folder) {
  const ResultsFiles files = inputs.results;
  const std::vector<ModelStudy> studies = split_studies(files, options.threads);
  if (studies.empty()) throw InputError("the results hold no dump: there is nothing to report");
  ReportData data;
  std::string names;
  for (const ModelStudy& study : studies) {
    names += (names.empty() ? "" : ", ") + printable(study.model());
    data.studied += (data.studied.empty() ? "" : " ") + studied(study);
    add_map(study, data);
  }
  data.title = options.title.empty() ? fmt::format("Attention fidelity of {}", names) : printable(options.title);
  data.cells_note = fmt::format(
      "Listed are the {} worst of each selector by recall, by LSE error and by dropped mass, at the "
      "papers\u2019 settings where the study has them. Enough for {}: the setting that keeps least "
      "among those that give the cell this recall.",
      options.cells.maximum, data.enough_recall);
  for (std::size_t m = 0; m < studies.size(); ++m) add_worst_cells(studies[m], m, options.cells, options.threads, data);
  add_left_out(files, data);
  for (std::size_t m = 0; m < studies.size(); ++m) add_study_findings(studies[m], m, data);
  ReportDrawing drawing{.folder = folder};
  std::vector<PageFinding> findings = std::exchange(data.findings, {});
  if (options.validation) add_validation_sections(files, studies, *options.validation, drawing, data);
  const std::vector<PageFinding> verdicts = std::exchange(data.findings, std::move(findings));
  FigureRequest request;
  request.options = ExperimentOptions(options.threads);
  request.only = options.only;
  request.progress = options.progress;
  add_experiment_sections(inputs, studies, request, drawing, data);
  data.figures_note = join(drawing.notes, " ");
  for (const ModelStudy& study : studies) add_claims_section(check_claims(study, *request.options.scan_bounds), data);
  std::ranges::stable_sort(data.findings, std::greater{}, &PageFinding::severity);
  data.verdicts = verdicts.size();
  data.findings.insert(data.findings.begin(), verdicts.begin(), verdicts.end());  // what was asked comes first
  for (const ResultsFile* file : files) add_manifest(*file, data);
  for (const KernelStudy& bench : inputs.benches) data.facts.push_back({"Bench", printable(bench.source())});
  for (const ModelBench& bench : inputs.model_benches) data.facts.push_back({"Bench", printable(bench.source())});
  for (const TasksFile& tasks : inputs.tasks) data.facts.push_back({"Answers", printable(tasks.path)});
  return data;
}

}  // namespace attest
