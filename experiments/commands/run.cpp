// attest run: studies selectors x settings on dumps and writes a results file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "dumps/base/error.h"
#include "experiments/cli/checks.h"
#include "experiments/cli/grid.h"
#include "experiments/cli/line_prefix.h"
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
  std::int64_t lease_ms = 10000, time_limit_ms = 0;
  bool send_results = false;
};

/// Where a launcher has set variables, this process is one of its ranks.
std::optional<RankOptions> rank_options(const RunCommand& command) {
  std::optional<RankEnvironment> environment = read_rank_environment();
  if (!environment) return std::nullopt;
  constexpr std::int64_t kShortestLease = 100;
  if (command.lease_ms < kShortestLease)
    throw UsageError(
        fmt::format("--lease is {} s, expected at least 0.1 s", static_cast<double>(command.lease_ms) / 1000));
  if (environment->rank > 0) set_line_prefix(fmt::format("[rank {}] ", environment->rank));
  return RankOptions{.environment = std::move(*environment),
                     .lease = std::chrono::milliseconds(command.lease_ms),
                     .send_results = command.send_results};
}

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
  command.run.ranks = rank_options(command);
  const RunReport report = run_typed_study(make_study(command), command.run, global, command.selectors.grids, "",
                                           std::chrono::milliseconds(command.time_limit_ms));
  if (report.outcome == RunReport::Outcome::led_by_rank_0) return;
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
  command->add_flag("--resume", options->run.resume,
                    "Go on with an unfinished study of the same options and inputs, or begin if there is none");
  command->add_flag("--force", options->run.force,
                    "Replace an existing results file; without --resume, also start an unfinished study over");
  command->add_flag("--skip-bad-layers", study.skip_bad_layers,
                    "Leave layers out that cannot be studied (NaN, Inf, overflow) instead of failing");
  command
      ->add_option("--allow-memory", options->run.allowed_memory,
                   "Memory that a layer and its results may take (default: 4GiB, or 16 times the dump's bytes on disk)")
      ->transform(byte_size())
      ->type_name("SIZE");
  command
      ->add_option("--time-limit", options->time_limit_ms, "Interrupt the study after this time: seconds, or H:MM:SS")
      ->transform(duration())
      ->type_name("TIME");
  command
      ->add_option("--lease", options->lease_ms, "Of ranks: one that is silent for this many seconds loses its layers")
      ->transform(duration())
      ->default_str("10")
      ->type_name("TIME");
  command->add_flag("--send-results", options->send_results,
                    "Of ranks: finished layers go to rank 0 through the store, where no folder is shared");
  command->add_flag("--with-dense-layers", options->run.with_dense_layers,
                    "Include dense layers in the summary's averages");
  command->callback([options, &global] { run(*options, global); });
}

}  // namespace attest
