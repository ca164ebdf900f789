// Chooses settings for units and judges them on other prompts.
#include "analysis/validation/unit_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "dumps/base/error.h"
#include "dumps/base/parallel_for.h"

namespace attest {
namespace {

/// [assignment] evidence of the certifying prompts, whose cells are read once.
std::vector<JudgedAssignment> judge_assignments(const PromptSet& set, const ValidationRequest& request,
                                                std::span<const Unit> units, std::span<const std::size_t> prompts,
                                                std::vector<Assignment> assignments,
                                                std::vector<PromptNumbers>& numbers) {
  std::vector<std::vector<AssembledPrompt>> assembled(prompts.size());
  parallel_for(request.threads, prompts.size(), [&](int, std::size_t i) {
    assembled[i] = assemble(set, prompts[i], request.targets, units, assignments);
  });
  std::vector<JudgedAssignment> judged(assignments.size());
  numbers.assign(assignments.size(), {});
  for (std::size_t a = 0; a < assignments.size(); ++a) {
    for (const std::vector<AssembledPrompt>& prompt : assembled) {
      numbers[a].push_back(prompt[a].targets);
      judged[a].keep += prompt[a].keep / static_cast<double>(prompts.size());
      judged[a].io += prompt[a].io / static_cast<double>(prompts.size());
    }
    judged[a].assignment = std::move(assignments[a]);
  }
  return judged;
}

/// The choices and the budget as an assignment. `losses` are of the choosing prompts.
Assignment allocate(const UnitLosses& losses, std::span<const Unit> units, double budget, UnitValidation& validation) {
  const std::vector<std::vector<UnitChoice>> choices = unit_choices(losses, units);
  validation.allocation = allocate_io(choices, budget);
  if (!validation.allocation) {
    double least = 0;
    for (const std::vector<UnitChoice>& own : choices) least += std::ranges::min(own, {}, &UnitChoice::io).io;
    throw UsageError(fmt::format("--io-budget: {:.4g}% is below {:.4g}%, which the smallest settings of the grid read",
                                 budget * 100, least * 100));
  }
  Assignment assignment;
  for (std::size_t u = 0; u < choices.size(); ++u)
    assignment.push_back(choices[u][validation.allocation->choice[u]].setting);
  for (std::size_t s = 0; s < losses.num_settings; ++s) {
    double io = 0, loss = 0;
    for (const std::vector<UnitChoice>& own : choices) {
      io += own[s].io;
      loss += own[s].loss;
    }
    if (io <= budget && (!validation.single_in_budget || loss < validation.single_loss)) {
      validation.single_in_budget = s;
      validation.single_loss = loss;
      validation.single_io = io;
    }
  }
  return assignment;
}

}  // namespace

PromptSplit split_prompts(const PromptSet& set, double choosing, std::uint64_t seed) {
  std::map<std::string, std::vector<std::size_t>> tasks;
  for (std::size_t p = 0; p < set.prompts.size(); ++p) tasks[set.prompts[p].task].push_back(p);
  std::mt19937_64 random(seed);
  PromptSplit split;
  double wanted = 0;  // of all tasks so far, which rounds each task so that their sum is right
  for (auto& [task, prompts] : tasks) {
    for (std::size_t i = prompts.size(); i > 1; --i) std::swap(prompts[i - 1], prompts[random() % i]);
    wanted += choosing * static_cast<double>(prompts.size());
    const auto take = std::min(
        prompts.size(),
        static_cast<std::size_t>(std::max(0.0, std::round(wanted) - static_cast<double>(split.choosing.size()))));
    split.choosing.insert(split.choosing.end(), prompts.begin(), prompts.begin() + static_cast<std::ptrdiff_t>(take));
    split.certifying.insert(split.certifying.end(), prompts.begin() + static_cast<std::ptrdiff_t>(take), prompts.end());
  }
  if (split.choosing.empty() || split.certifying.empty())
    throw UsageError(
        fmt::format("--choose {}: of {} prompt(s) {} would choose and {} certify, expected at least one each", choosing,
                    set.prompts.size(), split.choosing.size(), split.certifying.size()));
  std::ranges::sort(split.choosing);
  std::ranges::sort(split.certifying);
  return split;
}

UnitValidation validate_units(const PromptSet& set, const ValidationRequest& request, const UnitRequest& options) {
  check_claim(request.claim, request.targets);
  UnitValidation validation{
      .kind = options.kind, .units = units_of(set, options.kind, request.targets), .members = {}, .offenders = {}};
  const PromptSplit split = split_prompts(set, options.choosing, options.seed);
  validation.choosing = static_cast<std::int64_t>(split.choosing.size());
  validation.certifying = static_cast<std::int64_t>(split.certifying.size());
  const UnitLosses losses = unit_losses(set, split.choosing, request.targets, validation.units, request.threads);

  std::vector<Assignment> assignments;
  std::vector<double> slacks;
  if (options.io_budget) {
    if (std::ranges::all_of(losses.io, [](double io) { return io == 0; }))
      throw InputError(
          fmt::format("{}: the results have no io_ratio, which --io-budget needs", set.prompts.front().file->path()));
    assignments.push_back(allocate(losses, validation.units, *options.io_budget, validation));
    slacks.push_back(0);
  } else {
    for (FamilyMember& member : make_family(losses, validation.units, set.settings, kMostMembers)) {
      slacks.push_back(member.slack);
      assignments.push_back(std::move(member.assignment));
    }
  }
  std::vector<PromptNumbers> numbers;
  std::vector<JudgedAssignment> judged =
      judge_assignments(set, request, validation.units, split.certifying, std::move(assignments), numbers);
  std::vector<Certainty> certainties;
  for (std::size_t a = 0; a < judged.size() && !validation.stopped; ++a) {
    judged[a].slack = slacks[a];
    judged[a].evidence = judge(numbers[a], request.targets, request.claim);
    certainties.push_back(judged[a].evidence.certainty);
    validation.stopped = end_of_sequence(certainties).stopped;
    validation.members.push_back(std::move(judged[a]));
  }
  validation.certified = end_of_sequence(certainties).certified;
  if (validation.members.empty())
    throw InputError(
        fmt::format("{}: at no setting is the loss of any unit a finite number", set.prompts.front().file->path()));
  validation.certainty = validation.certified ? Certainty::certified : validation.members.front().evidence.certainty;

  const std::size_t shown = validation.stopped.value_or(validation.members.size() - 1);
  JudgedAssignment& in_the_way = validation.members[shown];
  if (validation.stopped)
    validation.prompts_to_decide =
        prompts_to_decide(numbers[shown], in_the_way.evidence, request.targets, request.claim);
  const std::size_t about = validation.certified.value_or(0);
  find_passing_values(numbers[about], request.targets, request.claim, validation.members[about].evidence);
  std::vector<Miss> misses = misses_of(numbers[shown], request.targets);
  for (Miss& miss : misses) miss.prompt = split.certifying[miss.prompt];
  validation.offenders = find_offenders(
      set, request.targets, misses, settings_of_heads(set, validation.units, in_the_way.assignment), kMostOffenders);
  return validation;
}

}  // namespace attest
