// attest validate: which setting of a selector is safe for a model, with what confidence.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
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
#include "experiments/cli/results_arguments.h"
#include "experiments/cli/version.h"
#include "experiments/commands/commands.h"
#include "experiments/validation/judge_results.h"
#include "experiments/validation/recommendation.h"
#include "experiments/validation/study_of_dumps.h"
#include "experiments/validation/verdict_files.h"
#include "experiments/validation/verdict_text.h"

namespace attest {
namespace {

struct ValidateOptions {
  std::vector<std::string> inputs;  ///< dumps, or results files
  JudgementOptions judgement;
  std::map<SettingKind, std::string> settings;  ///< --delta, --budget, --p, --factor
  std::string claim = "prompts", bound = "wsr";
  DumpStudyOptions study;
  std::string output, csv, trtllm;
};

/// Refuses what could not be written at the end, before the work.
void check_outputs(const ValidateOptions& options) {
  std::error_code ignored;
  std::vector<std::string> taken = options.inputs;
  taken.push_back(options.study.results);
  for (const std::string* path : {&options.output, &options.csv, &options.trtllm}) {
    for (const std::string& other : taken)
      if (!path->empty() && (*path == other || std::filesystem::equivalent(*path, other, ignored)))
        throw UsageError(
            printable(fmt::format("{} is an input or another output: give each output a name of its own", *path)));
    taken.push_back(*path);
  }
  for (const std::string* path : {&options.output, &options.csv, &options.trtllm}) {
    if (path->empty()) continue;
    const std::filesystem::path folder = std::filesystem::path(*path).parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
      throw OutputError(printable(fmt::format("cannot write '{}': there is no folder '{}'", *path, folder.string())));
    if (std::filesystem::is_directory(*path, ignored))
      throw OutputError(printable(fmt::format("cannot write '{}': it is a folder", *path)));
    if (!options.study.force && std::filesystem::exists(*path, ignored))
      throw OutputError(printable(fmt::format("{} is there already: --force replaces it", *path)));
  }
}

JudgementOptions judgement_options(const ValidateOptions& options, const GlobalOptions& global) {
  JudgementOptions judgement = options.judgement;
  const auto index = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) - names.begin();
  };
  judgement.claim.kind = static_cast<ClaimKind>(index(kClaimNames, options.claim));
  judgement.claim.bound = static_cast<MeanBound>(index(kBoundNames, options.bound));
  judgement.claim.seed = global.seed;
  judgement.threads = global.thread_count();
  judgement.recommends = !options.output.empty();
  for (const auto& [kind, text] : options.settings) {
    if (text.empty()) continue;
    if (judgement.setting_kind)
      throw UsageError(fmt::format("--{} and --{} each judge one setting: give one of them",
                                   name_of(*judgement.setting_kind), name_of(kind)));
    judgement.setting_kind = kind;
    judgement.setting = text;
  }
  return judgement;
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
  const JudgementOptions request = judgement_options(options, global);
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
    std::cout << verdict_json(judgement).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  else
    std::cout << verdict_text(judgement);
  std::cout.flush();
  if (judgement.certainty() != Certainty::certified) throw NotCertified("");
}

/// What the claim would not look at.
void check_claim_options(const CLI::App& command, const ValidateOptions& options) {
  if (options.claim != "mean" && command.count("--bound") > 0) throw UsageError("--bound belongs to --claim mean");
  if (options.claim == "mean" && command.count("--max-violating") > 0)
    throw UsageError("--max-violating does not belong to --claim mean, which is about no share of prompts");
  if (options.claim == "observed" && command.count("--confidence") > 0)
    throw UsageError("--confidence does not belong to --claim observed, which infers nothing");
}

void add_claim_options(CLI::App& command, ValidateOptions& options) {
  JudgementOptions& judgement = options.judgement;
  command
      .add_option(
          "--target", judgement.targets,
          "What each prompt must reach, METRIC[.STAT]>=VALUE or <=VALUE; STAT of its cells: mean (the default), "
          "min, max, median, pNN; may be repeated, and all must hold")
      ->allow_extra_args(false)
      ->transform(text_that_is("a target such as recall.min>=0.999"))
      ->type_name("TARGET")
      ->required();
  command.add_option("--claim", options.claim, "What is claimed: see 'Claims' in analysis/validation/README.md")
      ->transform(one_of(kClaimNames))
      ->capture_default_str()
      ->type_name("NAME");
  command
      .add_option("--max-violating", judgement.claim.max_violating,
                  "Share of prompts that may miss a target (default 10%)")
      ->transform(share_of_one())
      ->type_name("SHARE");
  command.add_option("--confidence", judgement.claim.confidence, "Of the claim (default 95%)")
      ->transform(share_of_one())
      ->type_name("SHARE");
  command
      .add_option("--bound", options.bound,
                  "Of --claim mean: betting (wsr), Hoeffding-Bentkus, or the bootstrap, which is approximate")
      ->transform(one_of(kBoundNames))
      ->capture_default_str()
      ->type_name("NAME");
  command
      .add_option("--clip", judgement.claim.clip,
                  "Of --claim mean: deficits count up to this (default ten times what the target allows)")
      ->transform(nonnegative_number())
      ->type_name("X");
}

void add_choice_options(CLI::App& command, ValidateOptions& options) {
  JudgementOptions& judgement = options.judgement;
  for (const SettingKindInfo& info : kSettingKinds)
    if (info.kind != SettingKind::none)
      command
          .add_option(fmt::format("--{}", info.name), options.settings[info.kind],
                      fmt::format("Judge this setting, {}, instead of finding the smallest", info.valid))
          ->transform(text_that_is(std::string(info.valid)))
          ->type_name("X");
  command
      .add_option("--selector", judgement.selector,
                  "Of results its label or name; of dumps NAME[:option=value,...] (default: the only one, or ffd)")
      ->transform(text_that_is("a selector"))
      ->type_name("SELECTOR");
  command
      .add_option("--grid", judgement.grid,
                  "Settings to choose from (default: all of the results; of dumps 1:16:0.25 for delta)")
      ->transform(text_that_is("a list such as 1:16:0.25"))
      ->type_name("GRID");
  command.add_option("--per", judgement.per, "What has a setting of its own")
      ->transform(one_of(kUnitNames))
      ->capture_default_str()
      ->type_name("UNIT");
  command
      .add_option(
          "--choose", judgement.choosing,
          "Share of the prompts that choose the settings of layers or KV heads; the others certify (default 50%)")
      ->transform(share_of_one())
      ->type_name("SHARE");
  command
      .add_option(
          "--io-budget", judgement.io_budget,
          "Find the settings of layers or KV heads that lose least while they read this share of dense attention")
      ->transform(share_of_one())
      ->type_name("SHARE");
  command.add_option("--layers", judgement.layers, "Judge these layers: 0-31, or 0,5,8-11, or 8- (default all)")
      ->transform(text_that_is("a list such as 0-31"))
      ->type_name("LIST");
  command.add_option("--model", judgement.model, "Of results of several models")
      ->transform(text_that_is("a model's name"))
      ->type_name("NAME");
  command
      .add_option("--for-length", judgement.for_length,
                  "Refuse a verdict if no prompts are as long as this number of tokens")
      ->transform(token_count())
      ->type_name("N");
  command.add_flag("--extrapolate", judgement.extrapolate, "Claim for the length of --for-length all the same");
}

}  // namespace

void add_validate(CLI::App& app, const GlobalOptions& global) {
  const auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = app.add_subcommand(
      "validate", "Which setting is safe for this model: the smallest certified one; exit 0 certified, 3 not");
  command->add_option("INPUT", options->inputs, "Dumps, which are studied first, or results files of `attest run`")
      ->required();
  add_claim_options(*command, *options);
  add_choice_options(*command, *options);
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
  command->callback([options, command, &global] {
    check_claim_options(*command, *options);
    run_validate(*options, global);
  });
}

}  // namespace attest
