// The verdict on single settings.
#include "analysis/validation/validation.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

double mean_at(const std::vector<PromptValues>& values, std::vector<double> PromptValues::*of, std::size_t setting) {
  std::vector<double> defined;
  for (const PromptValues& prompt : values)
    if (!std::isnan((prompt.*of)[setting])) defined.push_back((prompt.*of)[setting]);
  return std::accumulate(defined.begin(), defined.end(), 0.0) / static_cast<double>(defined.size());
}

/// The settings to judge, safest first.
std::vector<std::size_t> judged_settings(const PromptSet& set, const ValidationRequest& request) {
  if (request.setting) return {*request.setting};
  // What was not answered at a setting cannot be judged there: a run has the settings that it has, whatever came out.
  const bool of_answers = std::ranges::any_of(request.targets, &Target::of_answers);
  const auto answered = [&](std::size_t s) {
    return std::ranges::any_of(
        set.prompts, [&](const Prompt& prompt) { return !prompt.answers.empty() && !std::isnan(prompt.answers[s]); });
  };
  std::vector<std::size_t> chosen;
  for (const std::size_t s : set.settings)
    if ((request.grid.empty() || std::ranges::count(request.grid, s) > 0) && (!of_answers || answered(s)))
      chosen.push_back(s);
  if (chosen.empty())
    throw InputError(fmt::format("{}: no answer counts at any setting of '{}' that is judged",
                                 set.prompts.front().path(), printable(set.selector.label)));
  return chosen;
}

bool misses_target(double number, const Target& target) { return !std::isnan(number) && !target.is_met_by(number); }

void add_groups(const PromptSet& set, const PromptNumbers& numbers, const std::vector<Target>& targets,
                Validation& validation) {
  std::map<std::string, PromptGroup> tasks;
  std::map<std::int64_t, PromptGroup> lengths;
  for (std::size_t p = 0; p < numbers.size(); ++p) {
    if (std::ranges::all_of(numbers[p], [](double x) { return std::isnan(x); })) continue;
    const Prompt& prompt = set.prompts[p];
    bool violates = false;
    for (std::size_t t = 0; t < targets.size(); ++t) violates = violates || misses_target(numbers[p][t], targets[t]);
    // The power of two within which the prompt lies: tokens of an answer make it no longer.
    const std::int64_t without_answer = std::max<std::int64_t>(prompt.num_tokens - kAnswerTokens, 1);
    const auto length = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(without_answer)));
    for (PromptGroup* group : {&tasks[prompt.task], &lengths[length]}) {
      ++group->prompts;
      group->violations += violates ? 1 : 0;
    }
  }
  for (auto& [name, group] : tasks) {
    group.name = name;
    validation.by_task.push_back(group);
  }
  for (auto& [length, group] : lengths) {
    group.name = "up to " + length_text(length);
    validation.by_length.push_back(group);
  }
}

void walk(const ValidationRequest& request, Validation& validation) {
  std::vector<Certainty> certainties;
  for (const JudgedSetting& judged : validation.settings) certainties.push_back(judged.evidence.certainty);
  const SequenceEnd end = end_of_sequence(certainties);
  validation.passed = end.passed;
  validation.stopped = end.stopped;
  validation.chosen = !request.setting;
  validation.certainty = validation.about().evidence.certainty;
  for (std::size_t i = end.stopped.value_or(validation.settings.size()) + 1; i < validation.settings.size(); ++i)
    validation.settings[i].evidence.certainty = Certainty::not_tested;
}

}  // namespace

std::vector<Miss> misses_of(const PromptNumbers& numbers, std::span<const Target> targets) {
  std::vector<Miss> misses;
  for (std::size_t p = 0; p < numbers.size(); ++p)
    for (std::size_t t = 0; t < targets.size(); ++t)
      if (misses_target(numbers[p][t], targets[t])) misses.push_back({p, t});
  return misses;
}

PromptNumbers numbers_at(const std::vector<PromptValues>& values, std::size_t setting) {
  PromptNumbers numbers;
  for (const PromptValues& prompt : values) {
    std::vector<double>& of_prompt = numbers.emplace_back();
    for (const std::vector<double>& target : prompt.targets) of_prompt.push_back(target[setting]);
  }
  return numbers;
}

PromptNumbers numbers_of_clusters(const PromptSet& set, std::span<const std::size_t> prompts,
                                  const PromptNumbers& numbers, std::span<const Target> targets, GuaranteeKind kind) {
  std::map<std::size_t, std::size_t> places;
  PromptNumbers clusters;
  std::vector<std::vector<double>> counts;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto [at, is_new] = places.try_emplace(set.clusters[prompts[i]], clusters.size());
    if (is_new) {
      clusters.emplace_back(targets.size(), kNaN);
      counts.emplace_back(targets.size(), 0.0);
    }
    for (std::size_t t = 0; t < targets.size(); ++t) {
      double& so_far = clusters[at->second][t];
      const double x = numbers[i][t];
      if (std::isnan(x)) continue;
      const double count = ++counts[at->second][t];
      if (std::isnan(so_far))
        so_far = x;
      else if (kind == GuaranteeKind::mean)
        so_far += (x - so_far) / count;
      else
        so_far = targets[t].at_least ? std::min(so_far, x) : std::max(so_far, x);
    }
  }
  return clusters;
}

void check_targets_apply(const PromptSet& set, const std::vector<PromptValues>& values,
                         const std::vector<Target>& targets) {
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const bool any = std::ranges::any_of(values, [&](const PromptValues& prompt) {
      return std::ranges::any_of(prompt.targets[t], [](double x) { return !std::isnan(x); });
    });
    if (!any)
      throw InputError(fmt::format(
          "{}: no prompt has a number for the target '{}' of {} '{}'{}", set.prompts.front().path(), targets[t].text,
          set.candidates.empty() ? "selector" : "each of the candidates", printable(set.selector.label),
          targets[t].quantity.metric.starts_with("span_") ? ", which takes spans and a head that attends to them"
                                                          : ""));
  }
}

Validation validate(const PromptSet& set, const ValidationRequest& request) {
  check_guarantee(request.guarantee, request.targets);
  const std::vector<PromptValues> values = values_of(set, request.targets, request.threads);
  check_targets_apply(set, values, request.targets);

  std::vector<std::size_t> all(set.prompts.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const auto evidence_at = [&](std::size_t s) {
    return numbers_of_clusters(set, all, numbers_at(values, s), request.targets, request.guarantee.kind);
  };
  Validation validation;
  for (const std::size_t s : judged_settings(set, request)) {
    JudgedSetting& judged = validation.settings.emplace_back();
    judged.setting = s;
    judged.evidence = judge(evidence_at(s), request.targets, request.guarantee);
    judged.keep = mean_at(values, &PromptValues::keep, s);
    judged.io = mean_at(values, &PromptValues::io, s);
  }
  walk(request, validation);
  const std::size_t about = validation.passed.value_or(0);
  validation.numbers = evidence_at(validation.settings[about].setting);
  find_passing_values(validation.numbers, request.targets, request.guarantee, validation.settings[about].evidence);
  add_groups(set, numbers_at(values, validation.settings[about].setting), request.targets, validation);
  const JudgedSetting& in_the_way = validation.in_the_way();
  const PromptNumbers numbers = numbers_at(values, in_the_way.setting);
  if (validation.stopped)
    validation.prompts_to_decide =
        prompts_to_decide(evidence_at(in_the_way.setting), in_the_way.evidence, request.targets, request.guarantee);
  const std::vector<Miss> misses = misses_of(numbers, request.targets);
  validation.offenders =
      find_offenders(set, request.targets, misses, same_setting(set, in_the_way.setting), kMaxOffenders);
  for (const Miss& miss : misses)
    if (request.targets[miss.target].of_answers()) validation.wrong_answers.push_back(miss.prompt);
  return validation;
}

}  // namespace attest
