// Runs the study of `attest validate DUMP...` and `attest monitor REC DUMP...`.
#include "experiments/validation/study_of_dumps.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "analysis/results/study_difference.h"
#include "analysis/run/estimate_inputs.h"
#include "analysis/study/study_plan.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "dumps/format/dump_reader.h"
#include "dumps/format/file_format.h"
#include "experiments/cli/options/grid.h"
#include "experiments/cli/options/output_file.h"
#include "experiments/cli/options/selector_grids.h"
#include "experiments/cli/options/study_choice.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/run/study_run.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

/// Finer than that of `attest run`: each step is paid in bytes read for as long as the model is served. A settings_file
/// is judged as it stands.
constexpr std::string_view kDeltaGrid = "1:16:0.25";

/// The grid of the request and the setting that is judged: the larger ones say what would have been enough.
Grid grid_of(const Selector& selector, const JudgementOptions& request) {
  const SettingKind kind = selector.setting_kind();
  if (kind == SettingKind::none) {
    if (!request.grid.empty()) throw UsageError("--grid: the selector has no settings");
    return default_grid(kind);
  }
  const bool own = kind == SettingKind::delta && selector.settings_file() == nullptr;
  Grid grid = !request.grid.empty() ? parse_grid(kind, request.grid)
              : own                 ? parse_grid(kind, kDeltaGrid)
                                    : default_grid(selector);
  if (request.setting.empty()) return grid;
  if (kind != *request.setting_kind)
    throw UsageError(
        fmt::format("--{}: the selector has settings of --{}", name_of(*request.setting_kind), name_of(kind)));
  const Grid judged = parse_grid(kind, request.setting);
  if (std::ranges::count(grid.settings, judged.settings.front()) == 0) {
    grid.settings.push_back(judged.settings.front());
    grid.labels.push_back(judged.labels.front());
  }
  return grid;
}

std::vector<StudySelector> selectors_at_grids(const std::vector<SelectorSpec>& selectors,
                                              const JudgementOptions& request) {
  std::vector<StudySelector> made;
  for (const SelectorSpec& spec : selectors) {
    std::shared_ptr<Selector> selector = make_typed_selector(spec);
    const Grid grid = grid_of(*selector, request);
    made.push_back(make_study_selector(spec.label, std::move(selector), grid.settings, grid.labels));
  }
  return made;
}

/// The label of a candidate; labels may have '@' themselves.
std::string label_of(const std::string& candidate, const std::vector<std::string>& labels) {
  return std::ranges::count(labels, candidate) > 0 ? candidate : candidate.substr(0, candidate.rfind('@'));
}

/// The given selectors, and those that candidates name without being given.
std::vector<StudySelector> selectors_of_candidates(const std::vector<SelectorSpec>& selectors,
                                                   const JudgementOptions& request) {
  std::vector<SelectorSpec> studied = selectors;
  std::vector<std::string> labels;
  for (const SelectorSpec& spec : selectors) labels.push_back(spec.label);
  const auto is_candidate = [&](const std::string& text) {
    const std::string label = label_of(text, labels);
    try {
      return std::ranges::count(labels, label) > 0 || make_selector(parse_selector(label)) != nullptr;
    } catch (const UsageError&) {
      return false;
    }
  };
  std::map<std::string, std::vector<std::string>> settings;
  for (const std::string& candidate : joined_items(request.candidates, is_candidate)) {
    const std::string label = label_of(candidate, labels);
    if (std::ranges::count(labels, label) == 0) {
      studied.push_back(parse_selector(label));
      labels.push_back(label);
    }
    if (label != candidate) settings[label].push_back(candidate.substr(label.size() + 1));
  }
  std::vector<StudySelector> made;
  for (const SelectorSpec& spec : studied) {
    std::shared_ptr<Selector> selector = make_typed_selector(spec);
    const SettingKind kind = selector->setting_kind();
    if ((kind == SettingKind::none) == settings.contains(spec.label))
      throw UsageError(
          fmt::format("--candidates: '{}' has {}", printable(spec.label),
                      kind == SettingKind::none ? "no settings" : "several settings, expected LABEL@SETTING"));
    const Grid grid =
        kind == SettingKind::none ? default_grid(kind) : parse_grid(kind, join(settings[spec.label], ","));
    made.push_back(make_study_selector(spec.label, std::move(selector), grid.settings, grid.labels));
  }
  return made;
}

/// Opens the dumps, if there is something that they can tell before the study.
void check_planned(Study study, const JudgementOptions& request) {
  if (study.dumps.size() == 1 && request.model.empty() && request.cluster.empty() && !request.for_length) return;
  std::vector<DumpReader> readers;
  for (const StudyDump& dump : study.dumps) readers.emplace_back(dump.path);
  std::vector<const DumpInfo*> infos;
  for (const DumpReader& reader : readers) infos.push_back(&reader.info());
  plan_study(infos, study);
  check_samples(study.dumps, request);
}

std::string results_name(const std::string& dump, const DumpStudyOptions& options, const std::string& recommendation) {
  if (!options.results.empty()) return options.results;
  if (!recommendation.empty()) return std::filesystem::path(recommendation).replace_extension(".study.h5").string();
  return std::filesystem::path(dump).filename().replace_extension(".study.h5").string();
}

}  // namespace

void add_dump_study_options(Command& command, DumpStudyOptions& options) {
  command.option("--results", options.results, "Of dumps: the results file of their study (default: NAME.study.h5)")
      .takes(file_name())
      .type("FILE");
  command.option("--samples", options.samples, "Of dumps: samples by name, a,b (default all)")
      .takes(text_that_is("a list such as a,b"))
      .type("NAMES");
  command.option("--queries", options.queries, "Of dumps: all, last:N, or positions: 1000,2047")
      .shows_default()
      .type("WHICH");
  command.option("--allow-memory", options.allowed_memory, "Of dumps: memory that a layer and its results may take")
      .takes(byte_size())
      .type("SIZE");
  command.flag("--force", options.force,
               "Replace files that are there, of dumps also another study; the same study is used, or goes on");
}

void refuse_study_options(const DumpStudyOptions& options) {
  if (!options.is_default())
    throw UsageError(
        "--results, --queries, --samples and --allow-memory belong to the study of dumps, and these are results");
}

JudgedInputs split_judged_inputs(const std::vector<std::string>& paths) {
  JudgedInputs inputs;
  for (const std::string& path : paths) {
    const std::string format = file_format(path);
    (format == kTasksFormat ? inputs.tasks : format == kStudyFormat ? inputs.results : inputs.dumps).push_back(path);
  }
  if (!inputs.dumps.empty() && !inputs.results.empty())
    throw UsageError(fmt::format("{} is a dump and {} a results file: give dumps or results", inputs.dumps.front(),
                                 inputs.results.front()));
  return inputs;
}

std::string study_dumps(const std::vector<std::string>& dumps, const std::vector<SelectorSpec>& selectors,
                        const JudgementOptions& request, const DumpStudyOptions& options,
                        const std::string& recommendation, const GlobalOptions& global) {
  check_dumps(dumps);
  Study study;
  for (const std::string& path : dumps) study.dumps.emplace_back().path = path;
  study.selectors =
      request.candidates.empty() ? selectors_at_grids(selectors, request) : selectors_of_candidates(selectors, request);
  if (!request.layers.empty()) study.choice.layers = parse_layers(request.layers);
  if (!options.samples.empty()) study.choice.samples = parse_names(options.samples);
  study.choice.queries = parse_queries(options.queries);
  check_planned(study, request);
  RunOptions run;
  run.inputs = options.inputs;
  run.output = results_name(dumps.front(), options, recommendation);
  std::vector<std::string> taken = input_files(study);
  taken.push_back(run.output);
  for (const std::string& output : options.outputs) refuse_taken(output, taken);
  run.resume = true;
  run.force = options.force;
  run.allowed_memory = options.allowed_memory;
  run.resume_advice = "the same command goes on";
  const auto go = [&] {
    run_typed_study(study, run, global, {},
                    "a prompt without this layer cannot be judged: --layers or --samples can leave it out");
  };
  try {
    go();
  } catch (const OtherStudy& other) {
    if (options.force) {  // the units of another study, which resuming does not replace
      run.resume = false;
      go();
      return run.output;
    }
    const std::string text = other.found + "; --results names another file, and --force replaces it";
    if (dynamic_cast<const InputError*>(&other) != nullptr) throw InputError(text);
    throw UsageError(text);
  }
  return run.output;
}

}  // namespace attest
