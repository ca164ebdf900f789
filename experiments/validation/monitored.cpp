// Tests later prompts in the order in which they came.
#include "experiments/validation/monitored.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

/// "evidence 25.1, and 20 is an alarm; it came with prompt p012"
std::string evidence_text(const SequentialTest& test, const Monitored& found) {
  const double needed = 1 / found.recommended.guarantee.alpha();
  std::string text = fmt::format("evidence {:.3g}{}, and {:.3g} is an alarm", test.evidence,
                                 test.evidence < kMaxEvidence ? "" : " or more", needed);
  if (!test.alarm) return text;
  // Clusters have no prompt of their own.
  return text +
         (found.recommended.cluster.empty()
              ? fmt::format("; it came with prompt {}", printable(found.set.prompts[found.order[*test.alarm]].name))
              : fmt::format("; it came with number {} of the {}", *test.alarm + 1, units_text(found.set)));
}

Json json_of(const SequentialTest& test, const Monitored& found) {
  return {{"evidence", test.evidence},
          {"alarm", test.alarm.has_value()},
          {"after", test.alarm ? Json(*test.alarm + 1) : Json()},
          {"prompt", test.alarm && found.recommended.cluster.empty()
                         ? Json(found.set.prompts[found.order[*test.alarm]].name)
                         : Json()}};
}

}  // namespace

Monitored monitored(const Recommended& recommended, ResultsFiles files, int threads) {
  Monitored found{.recommended = recommended, .set = {}, .order = {}, .monitoring = {}};
  for (const ResultsFile* file : files) {
    const std::vector<StudyDump>& dumps = file->study().dumps;
    if (!dumps.empty() && std::ranges::count(dumps, recommended.model, &StudyDump::model) == 0)
      check_model(recommended, dumps.front().model, file->path());
    for (const StudyDump& dump : dumps)
      if (dump.model == recommended.model) check_units(recommended, Recommended::ModelShape::of(dump), file->path());
  }
  PromptScope scope{.model = recommended.model, .selector = {}, .cluster = recommended.cluster};
  find_recommended(recommended, *files.front(), scope);
  for (const int layer : recommended.layers) scope.layers.emplace_back(layer, layer);
  found.set = gather_prompts(files, scope);
  const PromptSet& set = found.set;
  for (const JudgedFile& file : judged_files(files, threads))
    refuse_certifying(recommended, file.content_hash, file.path);
  for (const Prompt& prompt : set.prompts) refuse_certifying(recommended, prompt.origin, prompt.path());
  found.order = testing_order(set, files, recommended.guarantee.seed);
  const PromptNumbers numbers = numbers_at(set, recommended.targets, recommended_settings(recommended, set), threads);
  PromptNumbers later;
  for (const std::size_t p : found.order) later.push_back(numbers[p]);
  later = numbers_of_clusters(set, found.order, later, recommended.targets, recommended.guarantee.kind);
  found.monitoring = monitor(recommended.certified, later, recommended.targets, recommended.guarantee);
  if (found.monitoring.prompts == 0)
    throw InputError(fmt::format("{}: no prompt has a number for a target of '{}', expected at least one",
                                 set.prompts.front().path(), recommended.path));
  return found;
}

std::vector<std::size_t> testing_order(const PromptSet& set, ResultsFiles files, std::uint64_t seed) {
  std::vector<std::size_t> order(set.prompts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto dump_of = [&](std::size_t p) {
    return std::pair(std::ranges::find(files, set.prompts[p].file) - files.begin(), set.prompts[p].dump);
  };
  std::ranges::sort(order, {}, [&](std::size_t p) { return std::tuple(dump_of(p), set.prompts[p].sample); });
  std::mt19937_64 random(seed);
  for (auto first = order.begin(); first != order.end();) {
    const auto end = std::find_if(first, order.end(), [&](std::size_t p) { return dump_of(p) != dump_of(*first); });
    for (auto left = end - first; left > 1; --left)
      std::swap(first[left - 1], first[static_cast<std::ptrdiff_t>(random() % static_cast<std::uint64_t>(left))]);
    first = end;
  }
  return order;
}

std::vector<std::string> differences(const Recommended& recommended, const PromptSet& set) {
  std::vector<std::string> found;
  std::set<std::string> tasks;
  std::int64_t of_tasks = 0, of_lengths = 0;
  for (const Prompt& prompt : set.prompts) {
    if (std::ranges::count(recommended.tasks, prompt.task) == 0) {
      tasks.insert(task_title(prompt.task));
      ++of_tasks;
    }
    if (recommended.lengths &&
        !is_length_among(prompt.num_tokens, recommended.lengths->first, recommended.lengths->second))
      ++of_lengths;
  }
  const std::string all = counted(std::ssize(set.prompts), "prompt");
  if (of_tasks > 0 && !recommended.tasks.empty())
    found.push_back(printable(
        fmt::format("{} of {} are of tasks that no certifying prompt is of: {}", of_tasks, all, join(tasks, ", "))));
  if (of_lengths > 0)
    found.push_back(fmt::format("{} of {} are shorter or longer than the {} tokens of the certifying ones", of_lengths,
                                all, range_text(recommended.lengths->first, recommended.lengths->second)));
  if (const auto queries = judged_queries(set); queries && recommended.queries && *queries != *recommended.queries)
    found.push_back(
        fmt::format("{} queries of each prompt are judged here, {} of the certifying ones: their numbers are of other "
                    "cells",
                    range_text(queries->first, queries->second),
                    range_text(recommended.queries->first, recommended.queries->second)));
  return found;
}

std::string text_of(const Monitored& found) {
  const Monitoring& seen = found.monitoring;
  const Guarantee& guarantee = found.recommended.guarantee;
  std::string text = seen.guarantee.alarm ? "broken: these prompts are evidence against the guarantee\n"
                     : seen.drift.alarm   ? "drift: these prompts are not like those that certified\n"
                                          : "no evidence against the guarantee\n";
  const std::string allowed =
      guarantee.kind == GuaranteeKind::mean
          ? "the mean deficit is what the targets allow"
          : fmt::format("at most {:.6g} % of {} violate", guarantee.max_violating * 100, units_text(found.set));
  text += fmt::format("  {:<13}{} of {} miss a target\n", "violating", seen.violations,
                      counted_units(found.set, seen.prompts));
  text += fmt::format("  {:<13}against \"{}\": {}\n", "guarantee", allowed, evidence_text(seen.guarantee, found));
  text += fmt::format("  {:<13}against \"like the {} that certified\": {}{}\n", "drift",
                      found.recommended.certified.size(), evidence_text(seen.drift, found),
                      seen.drift.alarm
                          ? (seen.worse ? "; they are farther from the targets" : "; they are nearer to the targets")
                          : "");
  text += fmt::format(
      "  {:<13}each test may be looked at after every prompt: a false alarm, ever, has a chance of at most {:.6g} %, "
      "one of either test at most {:.6g} %\n",
      "level", (1 - guarantee.confidence) * 100, (1 - guarantee.confidence) * 200);
  text += fmt::format("  {:<13}dumps as they were given; the prompts of one dump in an order drawn with seed {}\n",
                      "order", guarantee.seed);
  for (const std::string& sentence : differences(found.recommended, found.set))
    text += fmt::format("  {:<13}{}\n", "note", sentence);
  return text;
}

Json json_of(const Monitored& found) {
  const Monitoring& seen = found.monitoring;
  Json order = Json::array();
  for (const std::size_t p : found.order) order.push_back(found.set.prompts[p].name);
  Json drift = json_of(seen.drift, found);
  drift["worse"] = seen.worse;
  return {{"text", text_of(found)},
          {"recommendation", found.recommended.path},
          {"n", seen.prompts},
          {"k", seen.violations},
          {"needed", 1 / found.recommended.guarantee.alpha()},
          {"order", order},
          {"notes", differences(found.recommended, found.set)},
          {"guarantee", json_of(seen.guarantee, found)},
          {"drift", drift}};
}

}  // namespace attest
