// attest validate: which setting of a selector is safe for a model, with what confidence.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "dumps/inspect/file_format.h"
#include "experiments/cli/checks.h"
#include "experiments/cli/output_file.h"
#include "experiments/cli/results_arguments.h"
#include "experiments/cli/version.h"
#include "experiments/commands/commands.h"
#include "experiments/validation/claim_options.h"
#include "experiments/validation/recommendation.h"
#include "experiments/validation/study_of_dumps.h"
#include "experiments/validation/verdict_files.h"
#include "experiments/validation/verdict_folder.h"
#include "experiments/validation/verdict_text.h"

namespace attest {
namespace {

struct ValidateOptions {
  std::vector<std::string> inputs;  ///< dumps, or results files
  ClaimOptions claim;
  DumpStudyOptions study;
  std::string output, csv, trtllm;
  std::string details;
  std::vector<std::string> formats;  ///< of its pictures; empty: kDefaultFormats

  VerdictFolder folder() const {
    return {.path = details, .formats = formats.empty() ? kDefaultFormats : formats, .replace = study.force};
  }
};

/// Refuses what could not be written at the end, before the work.
void check_outputs(const ValidateOptions& options) {
  std::vector<std::string> taken = options.inputs;
  taken.push_back(options.study.results);
  for (const std::string* path : {&options.output, &options.csv, &options.trtllm}) {
    check_output_file(*path, taken, {.replace = options.study.force});
    taken.push_back(*path);
  }
  if (!options.details.empty()) check_verdict_folder(options.folder());
  if (options.details.empty() && !options.formats.empty())
    throw UsageError("--format is of the pictures of --details, which is not given");
}

/// Whether the inputs are dumps; they must be of one kind.
bool are_dumps(const std::vector<std::string>& inputs) {
  std::optional<bool> dumps;
  for (const std::string& path : inputs) {
    const bool dump = file_format(path) != kStudyFormat;
    if (dumps && *dumps != dump)
      throw UsageError(fmt::format("{} is a {} and {} a {}: give dumps or results", inputs.front(),
                                   *dumps ? "dump" : "results file", path, dump ? "dump" : "results file"));
    dumps = dump;
  }
  return dumps.value_or(false);
}

/// Throws OutputError, when everything is written, if gnuplot could not draw something.
void write_details(const Judgement& judgement, const ValidateOptions& options, const GlobalOptions& global) {
  if (options.details.empty()) return;
  const FigureReport report = write_verdict_folder(judgement, options.folder());
  if (!global.quiet) std::cerr << not_drawn_text(report, printable(options.details));
  if (!report.errors.empty()) throw OutputError(fmt::format("{}", fmt::join(report.errors, "; ")));
}

void write_outputs(const Judgement& judgement, const ValidateOptions& options, const GlobalOptions& global) {
  const AtomicFileOptions atomic{.overwrite = options.study.force};
  if (!options.csv.empty()) write_atomically(options.csv, offenders_csv(judgement), atomic);
  if (judgement.certainty() == Certainty::certified) {
    if (!options.output.empty())
      write_atomically(options.output, recommendation_json(judgement, program_version().program).dump(2) + "\n",
                       atomic);
    if (!options.trtllm.empty()) write_atomically(options.trtllm, trtllm_yaml(judgement), atomic);
  } else if (!global.quiet) {
    for (const std::string* path : {&options.output, &options.trtllm})
      if (!path->empty()) std::cerr << fmt::format("{} was not written: nothing is certified\n", printable(*path));
  }
}

void run_validate(ValidateOptions& options, const GlobalOptions& global) {
  JudgementOptions request = judgement_options(options.claim, global);
  request.recommends = !options.output.empty();
  check_options(request);
  check_outputs(options);
  std::vector<std::string> paths = options.inputs;
  if (are_dumps(paths)) {
    paths = {study_dumps(options.inputs, request, options.study, options.output, global)};
  } else if (!options.study.is_default()) {
    throw UsageError("--results, --queries and --samples belong to the study of dumps, and these are results");
  }
  ResultsArguments results;
  const Judgement judgement = judge_results(results.open(paths), request);
  if (!options.trtllm.empty()) trtllm_yaml(judgement);  // refuses what it cannot say, whatever the verdict
  write_outputs(judgement, options, global);
  if (global.json)
    std::cout << verdict_json_text(judgement);
  else
    std::cout << verdict_text(judgement);
  std::cout.flush();
  write_details(judgement, options, global);
  if (judgement.certainty() != Certainty::certified) throw NotCertified("");
}

}  // namespace

void add_validate(CLI::App& app, const GlobalOptions& global) {
  const auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = app.add_subcommand(
      "validate", "Which setting is safe for this model: the smallest certified one; exit 0 certified, 3 not");
  command->add_option("INPUT", options->inputs, "Dumps, which are studied first, or results files of `attest run`")
      ->required();
  add_claim_options(*command, options->claim, Targets::required);
  add_choice_options(*command, options->claim);
  add_dump_study_options(*command, options->study);
  command->add_option("-o,--output", options->output, "Recommendation file (JSON) to write if certified")
      ->transform(text_that_is("a file's name"))
      ->type_name("FILE");
  command->add_option("--csv", options->csv, "Table of the cells that stand in the way")
      ->transform(text_that_is("a file's name"))
      ->type_name("FILE");
  command
      ->add_option("--emit-trtllm", options->trtllm,
                   "Options of TensorRT-LLM (YAML) with the certified factor of skip_softmax")
      ->transform(text_that_is("a file's name"))
      ->type_name("FILE");
  command
      ->add_option("--details", options->details,
                   "Folder for everything about the verdict: figures, tables, offenders, JSON")
      ->transform(text_that_is("a folder's name"))
      ->type_name("DIR");
  command->add_option("--format", options->formats, "Of --details: pictures to draw (default pdf,svg,png)")
      ->delimiter(',')
      ->transform(one_of(kFigureFormats))
      ->type_name("NAMES");
  command->callback([options, command, &global] {
    check_claim_options(*command, options->claim);
    run_validate(*options, global);
  });
}

}  // namespace attest
