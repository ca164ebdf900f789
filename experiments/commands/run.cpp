// attest run: studies selectors x settings on dumps and writes a results file.
#include <fmt/core.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>

#include "analysis/run/launcher.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "experiments/cli/options/grid.h"
#include "experiments/cli/options/selector_grids.h"
#include "experiments/cli/options/study_choice.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/cli/process/line_prefix.h"
#include "experiments/commands/commands.h"
#include "experiments/commands/run_elsewhere.h"
#include "experiments/run/study_run.h"
#include "experiments/run/summary_table.h"

namespace attest {
namespace {

/// Arguments that are still to be parsed. All others are stored directly in `study` and `run`.
struct RunCommand {
  Study study;
  RunOptions run;
  std::vector<std::string> dumps;
  SelectorGrids selectors;
  std::string lambdas;  ///< empty: the default
  StudyChoiceText choice;
  std::string weights, units, chunk;
  std::vector<std::string> take;
  bool takes = false;
  std::int64_t time_limit_ms = 0;
  Elsewhere elsewhere;
};

/// Where a launcher has set variables, this process is one of several with the same command, which all join one study.
std::optional<Launch> join_others(RunOptions& options) {
  std::optional<Launch> launch = read_launch();
  if (!launch) return std::nullopt;
  if (options.force && !options.resume)
    throw UsageError(
        fmt::format("--force would start over in each of the {} processes that {} has started; remove '{}' "
                    "first, or add --resume",
                    launch->world, launch->launcher, options.output));
  options.resume = true;
  if (launch->rank > 0) set_line_prefix(fmt::format("[rank {}] ", launch->rank));
  return launch;
}

Study make_study(const RunCommand& command) {
  check_dumps(command.dumps);
  Study study = command.study;
  for (const std::string& path : command.dumps) study.dumps.emplace_back().path = path;
  study.selectors = chosen_selectors(command.selectors);
  study.choice = command.choice.parse();
  if (!command.lambdas.empty()) study.lambdas = parse_numbers(command.lambdas, "--lambdas");
  return study;
}

/// Units that another program computes elsewhere: --units and --chunk write some, --take brings them back.
void choose_units(const RunCommand& command, RunOptions& options) {
  if (command.units.empty() != command.chunk.empty())
    throw UsageError("--units and --chunk belong together: some units of the study go to a file");
  if (command.takes) options.take = command.take;
  if (!command.chunk.empty()) {
    if (command.takes || !options.output.empty())
      throw UsageError("--chunk writes units to a file of its own, without --output and --take");
    options.chunk = {.units = parse_ranges(command.units, "--units", "unit"), .file = command.chunk};
  } else if (options.output.empty()) {
    throw UsageError("'attest run' needs --output, results file to write; see 'attest run --help'");
  }
}

void print_missing(const RunReport& report, const RunOptions& options) {
  const Json document{{"results", options.output}, {"units", report.units}, {"missing", report.missing}};
  std::cout << document.dump(2) << '\n';
}

void run(RunCommand command, const GlobalOptions& global) {
  choose_units(command, command.run);
  if (!command.weights.empty()) {
    command.run.weights = read_head_weights(command.weights);
    command.run.inputs = {command.weights};
  }
  // A chunk shares no folder: of what launchers set it takes its GPU alone.
  const std::optional<Launch> launch = command.run.chunk ? read_launch() : join_others(command.run);
  const RunReport report = run_typed_study(make_study(command), command.run, global, command.selectors.grids, "",
                                           std::chrono::milliseconds(command.time_limit_ms), launch);
  if (report.outcome == RunReport::Outcome::unfinished) {
    if (global.json) print_missing(report, command.run);  // else a notice has said it
    return;
  }
  if (report.outcome == RunReport::Outcome::wrote_chunk || (launch && launch->rank > 0)) return;
  if (global.json) {
    Json document = summary_json(report.summary);
    document["results"] = command.run.output;
    document["device"] = report.device;
    std::cout << document.dump(2) << '\n';
  } else {
    std::cout << summary_table(report.summary) << fmt::format("Results: {}\n", printable(command.run.output));
  }
}

}  // namespace

void add_run(Command& program, const GlobalOptions& global) {
  const auto options = std::make_shared<RunCommand>();
  Study& study = options->study;
  Command& command = program.add_command("run", "Study selectors on dumps: selectors x settings -> results");
  command.option("DUMP", options->dumps, "Attention dumps").required();
  command.option("-o,--output", options->run.output, "Results file to write").takes(file_name()).type("FILE");
  add_selector_options(command, options->selectors);
  command
      .option("--lambdas", options->lambdas,
              fmt::format("Where the tails of the scan error are measured (default {})", join(study.lambdas, ",")))
      .joined()
      .takes(text_that_is("a list such as 0.5,1,2"))
      .type("GRID");
  command.option("--salient-delta", study.salient_delta, "Salient: at most this far below the largest score, in nats")
      .takes(nonnegative_number(Infinity::accepted))
      .shows_default()
      .type("X");
  add_study_choice(command, options->choice);
  command
      .option("--weights", options->weights,
              "Head weights, as 'attest weights' writes them, for layers without head gradients")
      .takes(file_name())
      .type("FILE");
  command.flag("--resume", options->run.resume,
               "Go on with an unfinished study of the same options and inputs, or begin if there is none");
  command.flag("--force", options->run.force,
               "Replace an existing results file; without --resume, also start an unfinished study over");
  command.flag("--skip-bad-layers", study.skip_bad_layers,
               "Leave layers out that cannot be studied (NaN, Inf, overflow) instead of failing");
  command
      .option("--allow-memory", options->run.allowed_memory,
              "Memory that a layer and its results may take (default: 4GiB, or 16 times the dump's bytes on disk)")
      .takes(byte_size())
      .type("SIZE");
  command.option("--time-limit", options->time_limit_ms, "Interrupt the study after this time: seconds, or H:MM:SS")
      .takes(duration())
      .type("TIME");
  command.flag("--with-dense-layers", options->run.with_dense_layers, "Include dense layers in the summary's averages");
  command
      .option("--units", options->units,
              "With --chunk: only these units (sample and layer) in their order in the study: 0-7, or 0,5,8-11, or 8-")
      .joined()
      .takes(text_that_is("a list such as 0-7"))
      .type("LIST");
  command.option("--chunk", options->chunk, "File of their results, for --take; instead of --output")
      .takes(file_name())
      .type("FILE");
  const Option& take = command
                           .option("--take", options->take,
                                   "Compute nothing: add the units of these chunks to the study, and tell which are "
                                   "missing; -: their names come on standard input, a line each, and they are removed")
                           .may_be_empty()
                           .type("FILE");
  add_elsewhere_options(command, options->elsewhere);
  command.on_run([options, &global, &take, &command] {
    options->takes = take.is_given();
    std::erase(options->take, "");
    if (is_elsewhere(options->elsewhere)) {
      make_study(*options);  // what is wrong with its options is said here
      run_elsewhere(options->elsewhere, command, options->run.output, global);
    }
    run(*options, global);
  });
}

}  // namespace attest
