// attest monitor: whether a certified recommendation still fits the prompts that come.
#include <fmt/core.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "analysis/run/input_hashes.h"
#include "dumps/base/error.h"
#include "dumps/format/dump_reader.h"
#include "experiments/cli/options/results_arguments.h"
#include "experiments/cli/parse/command.h"
#include "experiments/commands/commands.h"
#include "experiments/validation/monitored.h"
#include "experiments/validation/study_of_dumps.h"

namespace attest {
namespace {

struct MonitorOptions {
  std::string recommendation;
  std::vector<std::string> inputs;  ///< dumps, or results files
  DumpStudyOptions study;
  ResultsArguments results;
};

/// Takes results as they are, and studies dumps first, at the recommended settings.
ResultsFiles opened(MonitorOptions& options, const Recommended& recommended, const GlobalOptions& global) {
  JudgedInputs inputs = split_judged_inputs(options.inputs);
  if (!inputs.tasks.empty())
    throw UsageError(fmt::format("{} holds answers; attest monitor judges cells, attest validate new answers",
                                 inputs.tasks.front()));
  if (inputs.dumps.empty()) {
    refuse_study_options(options.study);
  } else {
    for (const std::string& path : inputs.dumps) {
      const DumpReader reader(path);
      check_model(recommended, reader.info().model, path);
      check_units(recommended, Recommended::ModelShape::of(reader.info()), path);
    }
    check_studied(recommended);
    options.study.inputs = {options.recommendation};
    const std::vector<std::string> hashes = content_hashes(inputs.dumps, global.thread_count());
    for (std::size_t d = 0; d < hashes.size(); ++d) refuse_certifying(recommended, hashes[d], inputs.dumps[d]);
    inputs.results = {
        study_dumps(inputs.dumps, selectors_of(recommended), study_request(recommended), options.study, "", global)};
  }
  return options.results.open(inputs.results);
}

void run_monitor(MonitorOptions& options, const GlobalOptions& global) {
  const Recommended recommended = read_recommended(options.recommendation);
  const Monitored found = monitored(recommended, opened(options, recommended, global), global.thread_count());
  std::cout << (global.json ? json_of(found).dump(2) + "\n" : text_of(found)) << std::flush;
  if (found.monitoring.guarantee.alarm || found.monitoring.drift.alarm) throw NotCertified("");
}

}  // namespace

void add_monitor(Command& program, const GlobalOptions& global) {
  const auto options = std::make_shared<MonitorOptions>();
  Command& command = program.add_command(
      "monitor",
      "Whether a recommendation still fits later prompts, tested after each: exit 0 no evidence, 3 evidence");
  command.option("REC", options->recommendation, "Recommendation of `attest validate -o`").required();
  command
      .option("INPUT", options->inputs,
              "Dumps of later prompts, which are studied at the recommended settings, or results files of their study, "
              "in the order in which the prompts came")
      .required();
  add_dump_study_options(command, options->study);
  command.on_run([options, &global] { run_monitor(*options, global); });
}

}  // namespace attest
