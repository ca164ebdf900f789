// attest validate: which setting of a selector is safe for a model, with what confidence.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/cli/options/output_file.h"
#include "experiments/cli/options/results_arguments.h"
#include "experiments/cli/options/selector_grids.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/cli/process/version.h"
#include "experiments/commands/commands.h"
#include "experiments/failure_prediction/failure_prediction.h"
#include "experiments/validation/engine_files.h"
#include "experiments/validation/guarantee_options.h"
#include "experiments/validation/recommendation.h"
#include "experiments/validation/study_of_dumps.h"
#include "experiments/validation/verdict_files.h"
#include "experiments/validation/verdict_folder.h"
#include "experiments/validation/verdict_text.h"

namespace attest {
namespace {

/// A file for an inference engine.
struct EngineFile {
  std::string_view option;
  std::string path;
  std::string (*text)(const Judgement&);  ///< throws UsageError for what the engine cannot be told
  std::string_view what;
};

struct ValidateOptions {
  std::vector<std::string> inputs;  ///< dumps, or results files
  GuaranteeOptions guarantee;
  DumpStudyOptions study;
  std::string output, csv, trtllm, vllm, modelopt;
  std::string details;
  std::vector<std::string> formats;  ///< of its pictures; empty: kDefaultFormats

  /// Those that are asked for.
  std::vector<EngineFile> engine_files() const {
    std::vector<EngineFile> files{{"--emit-trtllm", trtllm, trtllm_yaml, "the certified factor"},
                                  {"--emit-vllm", vllm, vllm_json, "the certified formats"},
                                  {"--emit-modelopt", modelopt, modelopt_json, "the certified formats"}};
    std::erase_if(files, [](const EngineFile& file) { return file.path.empty(); });
    return files;
  }
  /// The paths of all output files that are asked for, without those of --details.
  std::vector<std::string> files() const {
    std::vector<std::string> paths{output, csv, trtllm, vllm, modelopt};
    std::erase(paths, "");
    return paths;
  }
  VerdictFolder folder() const {
    return {.path = details, .formats = formats.empty() ? kDefaultFormats : formats, .replace = study.force};
  }
};

/// The place of a file or folder that need not be there.
std::filesystem::path place_of(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path place = std::filesystem::weakly_canonical(std::filesystem::absolute(path), ignored);
  return place.has_filename() ? place : place.parent_path();
}

/// Refuses, before the work, outputs that could not be written at the end.
void check_outputs(const ValidateOptions& options) {
  std::vector<std::string> taken = options.inputs;
  taken.push_back(options.study.results);
  for (const std::string& path : options.files()) {
    check_output_file(path, taken, {.replace = options.study.force});
    taken.push_back(path);
  }
  for (const std::string& path : taken)
    if (!options.details.empty() && !path.empty() && place_of(path) == place_of(options.details))
      throw UsageError(fmt::format("--details: {} is an input or another output, expected a folder of its own",
                                   printable(options.details)));
  for (const std::string& path : options.files()) {
    if (options.details.empty()) break;
    const std::filesystem::path place = place_of(path);
    if (place.parent_path() == place_of(options.details) && is_verdict_file(place.filename()))
      throw UsageError(
          fmt::format("--details: writes a file of the name of {}, expected another name or folder", printable(path)));
  }
  if (!options.details.empty()) check_verdict_folder(options.folder());
  if (options.details.empty() && !options.formats.empty())
    throw UsageError("--format is of the pictures of --details, which is not given");
}

/// Throws OutputError if the folder cannot be written, or if gnuplot failed on a figure, when all else is written.
void write_details(const Judgement& judgement, const ValidateOptions& options, const GlobalOptions& global) {
  if (options.details.empty()) return;
  const FigureReport report = write_verdict_folder(judgement, options.folder());
  if (!global.quiet) std::cerr << not_drawn_text(report, printable(options.details));
  refuse_failed(report, printable(options.details));
}

void write_outputs(const Judgement& judgement, const ValidateOptions& options, const GlobalOptions& global) {
  const auto write = [&](const std::string& path, const std::string& text, std::string_view what) {
    write_atomically(path, text, {.overwrite = options.study.force});
    if (!global.quiet) std::cerr << fmt::format("{}: {}\n", printable(path), what);
  };
  if (!options.csv.empty()) write(options.csv, offenders_csv(judgement), "the cells that stand in the way");
  if (judgement.certainty() == Certainty::certified) {
    if (!options.output.empty())
      write(options.output, recommendation_json(judgement, program_version().program).dump(2) + "\n",
            "the recommendation of what is certified");
    for (const EngineFile& file : options.engine_files()) {
      const std::string note = scales_note(judgement);
      write(file.path, file.text(judgement), fmt::format("{}{}{}", file.what, note.empty() ? "" : "; ", note));
    }
  } else if (!global.quiet) {
    for (const std::string& path : options.files())
      if (path != options.csv) std::cerr << fmt::format("{} was not written: nothing is certified\n", printable(path));
  }
}

/// The text of the judgements: one alone, or several as a list with what they say together.
void print(const std::vector<Judgement>& judgements, const GlobalOptions& global) {
  const std::string together = together_text(judgements.size(), judgements.front().request.guarantee);
  if (!global.json) {
    for (const Judgement& judgement : judgements) std::cout << verdict_text(judgement);
    if (!together.empty()) std::cout << together << '\n';
  } else {
    std::cout << verdicts_json_text(judgements, together);
  }
  std::cout.flush();
}

/// The results files to judge. Dumps are studied first; `selectors` then become the labels in their study.
std::vector<std::string> results_to_judge(const JudgedInputs& inputs, const JudgementOptions& request,
                                          std::vector<std::string>& selectors, ValidateOptions& options,
                                          const GlobalOptions& global) {
  const bool candidates = !request.candidates.empty();
  if (inputs.dumps.empty()) {
    refuse_study_options(options.study);
    if (candidates && !selectors.empty())
      throw UsageError("--candidates are labels of the results, and --selector is given, too");
    return inputs.results;
  }
  std::vector<SelectorSpec> specs;
  for (std::string& selector : selectors) selector = specs.emplace_back(parse_selector(selector)).label;
  if (specs.empty() && !candidates) specs.push_back(parse_selector("ffd"));
  for (const EngineFile& file : options.engine_files())
    check_engine_words(file.option, candidates ? nullptr : &specs.front(), request.per);
  options.study.outputs = options.files();
  return {study_dumps(inputs.dumps, specs, request, options.study, options.output, global)};
}

void run_validate(ValidateOptions& options, const GlobalOptions& global) {
  JudgementOptions request = judgement_options(options.guarantee, global);
  std::vector<std::string> selectors = options.guarantee.selectors;
  const bool candidates = !request.candidates.empty();
  if (selectors.size() > 1 && !candidates && !(options.files().empty() && options.details.empty()))
    throw UsageError("--output, --csv, --emit-..., and --details are of one --selector");
  request.recommends = !options.output.empty();
  const JudgedInputs inputs = split_judged_inputs(options.inputs);
  check_options(request, !inputs.tasks.empty());
  check_outputs(options);
  const std::vector<TasksFile> tasks = read_tasks_files(inputs.tasks);
  const std::vector<std::string> paths = results_to_judge(inputs, request, selectors, options, global);
  if (selectors.empty() || candidates) selectors = {""};
  ResultsArguments arguments;
  const ResultsFiles results = paths.empty() ? ResultsFiles() : arguments.open(paths);
  std::vector<Judgement> judgements;
  for (const std::string& selector : selectors) {
    request.selector = selector;
    judgements.push_back(judge_results(results, request, tasks));
  }
  // These files refuse what they cannot say, whatever the verdict.
  for (const EngineFile& file : options.engine_files()) file.text(judgements.front());
  print(judgements, global);  // first: what cannot be written does not hide the verdict
  write_outputs(judgements.front(), options, global);
  write_details(judgements.front(), options, global);
  if (!std::ranges::all_of(judgements, [](const Judgement& j) { return j.certainty() == Certainty::certified; }))
    throw NotCertified("");
}

}  // namespace

void add_validate(Command& program, const GlobalOptions& global) {
  const auto options = std::make_shared<ValidateOptions>();
  Command& command = program.add_command(
      "validate", "Which setting is safe for this model: the smallest certified one; exit 0 certified, 3 not");
  command
      .option("INPUT", options->inputs,
              "Dumps, which are studied first, or results files of `attest run`; answers of `attest tasks`, alone "
              "or with them")
      .required();
  add_guarantee_options(command, options->guarantee, Targets::required);
  add_choice_options(command, options->guarantee);
  add_dump_study_options(command, options->study);
  command.option("-o,--output", options->output, "Recommendation file (JSON) to write if certified")
      .takes(file_name())
      .type("FILE");
  command.option("--csv", options->csv, "Table of the cells that stand in the way").takes(file_name()).type("FILE");
  command
      .option("--emit-trtllm", options->trtllm,
              "Options of TensorRT-LLM (YAML) with the certified factor of skip_softmax")
      .takes(file_name())
      .type("FILE");
  command
      .option("--emit-vllm", options->vllm,
              "Arguments of vLLM (JSON) with the certified format of the KV cache and the layers without it")
      .takes(file_name())
      .type("FILE");
  command
      .option("--emit-modelopt", options->modelopt,
              "ModelOpt's config of the KV cache (JSON) with the certified format of each layer")
      .takes(file_name())
      .type("FILE");
  command
      .option("--details", options->details,
              "Folder for everything about the verdict: figures, tables, offenders, JSON")
      .takes(folder_name())
      .type("DIR");
  command.option("--format", options->formats, "Of --details: pictures to draw (default pdf,svg,png)")
      .separated()
      .takes(one_of(kFigureFormats))
      .type("NAMES");
  command.on_run([options, &command, &global] {
    check_guarantee_options(command, options->guarantee);
    run_validate(*options, global);
  });
}

}  // namespace attest
