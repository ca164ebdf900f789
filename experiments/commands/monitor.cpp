// attest monitor: whether a certified recommendation still fits the prompts that come.
#include <fmt/core.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/validation/monitoring.h"
#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "experiments/cli/options/results_arguments.h"
#include "experiments/cli/parse/command.h"
#include "experiments/commands/commands.h"
#include "experiments/validation/judge_results.h"
#include "experiments/validation/recommended.h"
#include "experiments/validation/study_of_dumps.h"

namespace attest {
namespace {

struct MonitorOptions {
  std::string recommendation;
  std::vector<std::string> inputs;  ///< dumps, or results files
  DumpStudyOptions study;
  ResultsArguments results;
};

/// Results as they are; dumps are studied first, at the recommended settings.
ResultsFiles opened(MonitorOptions& options, const Recommended& recommended, const GlobalOptions& global) {
  JudgedInputs inputs = split_judged_inputs(options.inputs);
  if (!inputs.tasks.empty())
    throw UsageError(fmt::format("{} holds answers; attest monitor judges cells, attest validate new answers",
                                 inputs.tasks.front()));
  if (inputs.dumps.empty())
    refuse_study_options(options.study);
  else
    inputs.results = {
        study_dumps(inputs.dumps, selectors_of(recommended), study_request(recommended), options.study, "", global)};
  return options.results.open(inputs.results);
}

/// Throws UsageError if a file, or the dump of a prompt, helped to certify.
void refuse_certifying(const Recommended& recommended, ResultsFiles files, const PromptSet& set, int threads) {
  const auto refuse = [&](const std::string& hash, const std::string& path) {
    if (std::ranges::count(recommended.hashes, hash) > 0)
      throw UsageError(
          fmt::format("{} holds the prompts that certified {}; monitoring takes later ones", path, recommended.path));
  };
  for (const JudgedFile& file : judged_files(files, threads)) refuse(file.content_hash, file.path);
  for (const Prompt& prompt : set.prompts) refuse(prompt.origin, prompt.path());
}

struct Monitored {
  Recommended recommended;
  PromptSet set;
  std::vector<std::size_t> order;  ///< of the prompts, as they came: by file, dump and sample
  Monitoring monitoring;
};

Monitored monitored(MonitorOptions& options, const GlobalOptions& global) {
  Monitored found{.recommended = read_recommended(options.recommendation), .set = {}, .order = {}, .monitoring = {}};
  const Recommended& recommended = found.recommended;
  const ResultsFiles files = opened(options, recommended, global);
  PromptScope scope{.model = recommended.model, .selector = {}, .cluster = recommended.cluster};
  find_recommended(recommended, *files.front(), scope);
  for (const int layer : recommended.layers) scope.layers.emplace_back(layer, layer);
  found.set = gather_prompts(files, scope);
  refuse_certifying(recommended, files, found.set, global.thread_count());
  PromptSet& set = found.set;
  const PromptNumbers numbers =
      numbers_at(set, recommended.targets, recommended_settings(recommended, set), global.thread_count());
  std::vector<std::size_t>& order = found.order;
  order.resize(set.prompts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto place = [&](std::size_t p) {
    const Prompt& prompt = set.prompts[p];
    return std::tuple(std::ranges::find(files, prompt.file) - files.begin(), prompt.dump, prompt.sample);
  };
  std::ranges::sort(order, {}, place);
  PromptNumbers later;
  for (const std::size_t p : order) later.push_back(numbers[p]);
  later = numbers_of_clusters(set, order, later, recommended.targets, recommended.guarantee.kind);
  found.monitoring = monitor(recommended.certified, later, recommended.targets, recommended.guarantee);
  return found;
}

/// "evidence 25.1 of the 20 that 95 % takes, reached with prompt p012"
std::string evidence_text(const SequentialTest& test, const Monitored& found) {
  const double needed = 1 / found.recommended.guarantee.alpha();
  std::string text = fmt::format("evidence {:.3g}, and {:.3g} is an alarm", test.evidence, needed);
  if (!test.alarm) return text;
  // Clusters have no prompt of their own.
  return text +
         (found.recommended.cluster.empty()
              ? fmt::format("; it came with prompt {}", printable(found.set.prompts[found.order[*test.alarm]].name))
              : fmt::format("; it came with the {}th", *test.alarm + 1));
}

std::string text_of(const Monitored& found) {
  const Monitoring& seen = found.monitoring;
  const Guarantee& guarantee = found.recommended.guarantee;
  const std::string level = fmt::format("{:.6g} %", guarantee.confidence * 100);
  std::string text = seen.guarantee.alarm ? "broken: these prompts are evidence against the guarantee\n"
                     : seen.drift.alarm   ? "drift: these prompts are not like those that certified\n"
                                          : "no evidence against the guarantee\n";
  const std::string allowed =
      guarantee.kind == GuaranteeKind::mean
          ? "the mean deficit is what the targets allow"
          : fmt::format("at most {:.6g} % of {} violate", guarantee.max_violating * 100, units_text(found.set));
  text += fmt::format("  {:<13}{} of {} {} miss a target\n", "violating", seen.violations, seen.prompts,
                      units_text(found.set));
  text += fmt::format("  {:<13}against \"{}\": {}\n", "guarantee", allowed, evidence_text(seen.guarantee, found));
  text += fmt::format("  {:<13}against \"like the {} that certified\": {}{}\n", "drift",
                      found.recommended.certified.size(), evidence_text(seen.drift, found),
                      seen.drift.alarm
                          ? (seen.worse ? "; they are farther from the targets" : "; they are nearer to the targets")
                          : "");
  text += fmt::format(
      "  {:<13}each test may be looked at after every prompt: a false alarm, ever, has a chance of at most "
      "1 - {}\n",
      "level", level);
  return text;
}

Json json_of(const SequentialTest& test, const Monitored& found) {
  return {{"evidence", test.evidence},
          {"alarm", test.alarm.has_value()},
          {"after", test.alarm ? Json(*test.alarm + 1) : Json()},
          {"prompt", test.alarm && found.recommended.cluster.empty()
                         ? Json(found.set.prompts[found.order[*test.alarm]].name)
                         : Json()}};
}

void run_monitor(MonitorOptions& options, const GlobalOptions& global) {
  const Monitored found = monitored(options, global);
  const Monitoring& seen = found.monitoring;
  if (global.json) {
    Json drift = json_of(seen.drift, found);
    drift["worse"] = seen.worse;
    const Json document = {{"text", text_of(found)},
                           {"recommendation", options.recommendation},
                           {"n", seen.prompts},
                           {"k", seen.violations},
                           {"needed", 1 / found.recommended.guarantee.alpha()},
                           {"guarantee", json_of(seen.guarantee, found)},
                           {"drift", drift}};
    std::cout << document.dump(2) << '\n';
  } else {
    std::cout << text_of(found);
  }
  std::cout.flush();
  if (seen.guarantee.alarm || seen.drift.alarm) throw NotCertified("");
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
