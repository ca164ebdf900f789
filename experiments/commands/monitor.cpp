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

namespace attest {
namespace {

struct MonitorOptions {
  std::string recommendation;
  ResultsArguments results;
};

struct Monitored {
  Recommended recommended;
  PromptSet set;
  std::vector<std::size_t> order;  ///< of the prompts, as they came: by file, dump and sample
  Monitoring monitoring;
};

Monitored monitored(MonitorOptions& options, const GlobalOptions& global) {
  Monitored found{.recommended = read_recommended(options.recommendation), .set = {}, .order = {}, .monitoring = {}};
  const Recommended& recommended = found.recommended;
  const ResultsFiles files = options.results.open();
  for (const JudgedFile& file : judged_files(files, global.thread_count()))
    if (std::ranges::count(recommended.hashes, file.content_hash) > 0)
      throw UsageError(fmt::format("{} holds the prompts that certified {}; monitoring takes later ones", file.path,
                                   recommended.path));
  PromptScope scope{
      .model = recommended.model, .selector = label_of(recommended, *files.front()), .cluster = recommended.cluster};
  for (const int layer : recommended.layers) scope.layers.emplace_back(layer, layer);
  found.set = gather_prompts(files, scope);
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
  options->results.add_to(command,
                          ", of later prompts in the order in which they came, studied at the recommended settings");
  command.on_run([options, &global] { run_monitor(*options, global); });
}

}  // namespace attest
