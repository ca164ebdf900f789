// attest run: studies selectors x settings on dumps and writes a results file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "dumps/base/error.h"
#include "experiments/cli/checks.h"
#include "experiments/cli/grid.h"
#include "experiments/cli/selector_grids.h"
#include "experiments/cli/study_choice.h"
#include "experiments/cli/study_run.h"
#include "experiments/cli/summary_table.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

/// Arguments that are still to be parsed. CLI11 stores all others directly in `study` and `run`.
struct RunCommand {
  Study study;
  RunOptions run;
  std::vector<std::string> dumps;
  SelectorGrids selectors;
  std::string lambdas, layers, samples;  ///< empty: the default
  std::string queries = "all";
};

Study make_study(const RunCommand& command) {
  check_dumps(command.dumps);
  Study study = command.study;
  for (const std::string& path : command.dumps) study.dumps.emplace_back().path = path;
  study.selectors = chosen_selectors(command.selectors);
  if (!command.layers.empty()) study.choice.layers = parse_layers(command.layers);
  if (!command.samples.empty()) study.choice.samples = parse_names(command.samples);
  study.choice.queries = parse_queries(command.queries);
  if (!command.lambdas.empty()) study.lambdas = parse_numbers(command.lambdas, "--lambdas");
  return study;
}

void join_lists(RunCommand& command) {
  join_lists(command.selectors);
  for (std::string* text : {&command.lambdas, &command.layers, &command.samples, &command.queries}) join_list(*text);
}

void run(RunCommand command, const GlobalOptions& global) {
  join_lists(command);
  const RunReport report = run_typed_study(make_study(command), command.run, global, command.selectors.grids);
  if (global.json) {
    nlohmann::ordered_json document = summary_json(report.summary);
    document["results"] = command.run.output;
    document["device"] = report.device;
    std::cout << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  } else {
    std::cout << summary_table(report.summary) << fmt::format("Results: {}\n", command.run.output);
  }
}

}  // namespace

void add_run(CLI::App& app, const GlobalOptions& global) {
  const auto options = std::make_shared<RunCommand>();
  Study& study = options->study;
  CLI::App* command = app.add_subcommand("run", "Study selectors on dumps: selectors x settings -> results");
  command->add_option("DUMP", options->dumps, "Attention dumps")->required();
  command->add_option("-o,--output", options->run.output, "Results file to write")
      ->required()
      ->transform(text_that_is("a file's name"))
      ->type_name("FILE");
  add_selector_options(*command, options->selectors);
  command
      ->add_option(
          "--lambdas", options->lambdas,
          fmt::format("Where the tails of the scan error are measured (default {})", fmt::join(study.lambdas, ",")))
      ->multi_option_policy(CLI::MultiOptionPolicy::Join)
      ->transform(text_that_is("a list such as 0.5,1,2"))
      ->type_name("GRID");
  command
      ->add_option("--salient-delta", study.salient_delta, "Salient: at most this far below the largest score, in nats")
      ->transform(nonnegative_number(Infinity::accepted))
      ->capture_default_str()
      ->type_name("X");
  command->add_option("--layers", options->layers, "Layers: 0-31, or 0,5,8-11, or 8- for all from 8 on (default all)")
      ->multi_option_policy(CLI::MultiOptionPolicy::Join)
      ->transform(text_that_is("a list such as 0-31"))
      ->type_name("LIST");
  command->add_option("--samples", options->samples, "Samples by name: a,b (default all)")
      ->multi_option_policy(CLI::MultiOptionPolicy::Join)
      ->transform(text_that_is("a list such as a,b"))
      ->type_name("NAMES");
  command->add_option("--queries", options->queries, "all, last:N, or positions: 1000,2047")
      ->multi_option_policy(CLI::MultiOptionPolicy::Join)
      ->capture_default_str()
      ->type_name("WHICH");
  command->add_flag("--resume", options->run.resume, "Go on with an unfinished study of the same options and inputs");
  command->add_flag("--force", options->run.force,
                    "Replace an existing results file, or start an unfinished study over");
  command->add_flag("--skip-bad-layers", study.skip_bad_layers,
                    "Leave layers out that cannot be studied (NaN, Inf, overflow) instead of failing");
  command
      ->add_option("--allow-memory", options->run.allowed_memory,
                   "Memory that a layer and its results may take (default: 4GiB, or 16 times the dump's bytes on disk)")
      ->transform(byte_size())
      ->type_name("SIZE");
  command->add_flag("--with-dense-layers", options->run.with_dense_layers,
                    "Include dense layers in the summary's averages");
  command->callback([options, &global] { run(*options, global); });
}

}  // namespace attest
