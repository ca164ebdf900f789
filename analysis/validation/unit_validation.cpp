// Chooses settings for units and judges them on other prompts.
#include "analysis/validation/unit_validation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "analysis/statistics/shuffle.h"
#include "dumps/base/error.h"
#include "dumps/base/parallel_for.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

/// Of those that are not NaN; NaN if none is.
double mean_of_defined(std::vector<double> values) {
  std::erase_if(values, [](double x) { return std::isnan(x); });
  if (values.empty()) return kNaN;
  double mean = 0;
  for (const double x : values) mean += x / static_cast<double>(values.size());
  return mean;
}

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
    std::vector<double> keep, io;
    for (const std::vector<AssembledPrompt>& prompt : assembled) {
      numbers[a].push_back(prompt[a].targets);
      keep.push_back(prompt[a].keep);
      io.push_back(prompt[a].io);
    }
    judged[a].keep = mean_of_defined(keep);
    judged[a].io = mean_of_defined(io);
    judged[a].assignment = std::move(assignments[a]);
  }
  return judged;
}

/// The choices and the budget as an assignment. `losses` are of the choosing prompts.
Assignment allocate(const UnitLosses& losses, std::span<const Unit> units, double budget, UnitValidation& validation) {
  const std::vector<std::vector<UnitChoice>> choices = unit_choices(losses, units);
  validation.allocation = allocate_io(choices, budget);
  if (!validation.allocation) {
    double minimum = 0;
    for (const std::vector<UnitChoice>& own : choices) {
      double io = std::numeric_limits<double>::infinity();
      for (const UnitChoice& choice : own)
        if (std::isfinite(choice.loss)) io = std::min(io, choice.io);  // as allocate_io() chooses
      minimum += io;
    }
    throw UsageError(fmt::format("--io-budget: {:.4g}% is below {:.4g}%, which the smallest settings of the grid read",
                                 budget * 100, minimum * 100));
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

/// Where the family starts: at the first member that reads less than one setting for all would, the smallest at which
/// no unit's loss exceeds what the targets allow. The choosing prompts decide that. 0 if no member does.
std::size_t first_that_saves(std::span<const FamilyMember> family, const UnitLosses& losses,
                             std::span<const Unit> units, std::span<const std::size_t> safest_first) {
  const double heads = heads_of(units);
  double single = 1;
  for (const std::size_t setting : safest_first) {
    double worst = 0, io = 0;
    for (std::size_t u = 0; u < units.size(); ++u) {
      worst = std::max(worst, losses.worst[u * losses.num_settings + setting]);
      io += losses.io[u * losses.num_settings + setting] * static_cast<double>(units[u].num_heads) / heads;
    }
    if (worst > 1) break;
    single = io;
  }
  const auto first = std::ranges::find_if(family, [&](const FamilyMember& member) { return member.io < single; });
  return first == family.end() ? 0 : static_cast<std::size_t>(first - family.begin());
}

/// What it takes to have `certifying` prompts: prompts in all, or of the `have` a smaller part that chooses.
void plan_prompts(std::int64_t certifying, std::int64_t have, double choosing, UnitValidation& validation) {
  const auto left = [&](std::int64_t all) {
    return all - static_cast<std::int64_t>(std::round(choosing * static_cast<double>(all)));
  };
  auto all = static_cast<std::int64_t>(static_cast<double>(certifying) / (1 - choosing)) - 1;
  while (left(all) < certifying) ++all;
  validation.prompts_to_decide = all;
  constexpr double kStep = 0.05;
  const double share = kStep * std::floor(static_cast<double>(have - certifying) / static_cast<double>(have) / kStep);
  if (share > 0 && share < choosing && share * static_cast<double>(have) >= 1) validation.smaller_choice = share;
}

}  // namespace

PromptSplit split_prompts(const PromptSet& set, double choosing, std::uint64_t seed) {
  // Clusters stay together, each with the task of its first prompt.
  std::map<std::size_t, std::vector<std::size_t>> clusters;
  for (std::size_t p = 0; p < set.prompts.size(); ++p) clusters[set.clusters[p]].push_back(p);
  std::map<std::string, std::vector<std::size_t>> tasks;
  for (const auto& [cluster, prompts] : clusters) tasks[set.prompts[prompts.front()].task].push_back(cluster);
  std::mt19937_64 random(seed);
  PromptSplit split;
  double wanted = 0, taken = 0;  // sums over the tasks so far: their rounding errors do not add up
  for (auto& [task, own] : tasks) {
    shuffle(own, random);
    wanted += choosing * static_cast<double>(own.size());
    const auto take = std::min(own.size(), static_cast<std::size_t>(std::max(0.0, std::round(wanted) - taken)));
    taken += static_cast<double>(take);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::vector<std::size_t>& prompts = clusters[own[i]];
      std::vector<std::size_t>& part = i < take ? split.choosing : split.certifying;
      part.insert(part.end(), prompts.begin(), prompts.end());
    }
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
  check_guarantee(request.guarantee, request.targets);
  if (std::ranges::any_of(request.targets, &Target::of_answers))
    throw UsageError("--per: answers are known at one setting for the whole model, not at settings of its parts");
  const PromptSplit split = split_prompts(set, options.choosing, options.seed);
  UnitValidation validation{.kind = options.kind,
                            .units = units_of(set, options.kind, request.targets),
                            .choosing = split.choosing,
                            .certifying = split.certifying,
                            .members = {},
                            .offenders = {}};
  const UnitLosses losses = unit_losses(set, split.choosing, request.targets, validation.units, request.threads);

  std::vector<Assignment> assignments;
  std::vector<double> slacks;
  if (options.io_budget) {
    if (std::ranges::all_of(losses.io, [](double io) { return io == 0; }))
      throw InputError(
          fmt::format("{}: the results have no io_ratio, which --io-budget needs", set.prompts.front().path()));
    assignments.push_back(allocate(losses, validation.units, *options.io_budget, validation));
    slacks.push_back(0);
  } else {
    const std::vector<FamilyMember> family = make_family(losses, validation.units, set.settings, kMaxMembers);
    for (std::size_t m = first_that_saves(family, losses, validation.units, set.settings); m < family.size(); ++m) {
      slacks.push_back(family[m].slack);
      assignments.push_back(family[m].assignment);
    }
  }
  std::vector<PromptNumbers> numbers;
  std::vector<JudgedAssignment> judged =
      judge_assignments(set, request, validation.units, split.certifying, std::move(assignments), numbers);
  const auto evidence_of = [&](std::size_t a) {
    return numbers_of_clusters(set, split.certifying, numbers[a], request.targets, request.guarantee.kind);
  };
  std::vector<Certainty> certainties;
  for (std::size_t a = 0; a < judged.size() && !validation.stopped; ++a) {
    judged[a].slack = slacks[a];
    judged[a].evidence = judge(evidence_of(a), request.targets, request.guarantee);
    certainties.push_back(judged[a].evidence.certainty);
    validation.stopped = end_of_sequence(certainties).stopped;
    validation.members.push_back(std::move(judged[a]));
  }
  validation.passed = end_of_sequence(certainties).passed;
  if (validation.members.empty())
    throw InputError(
        fmt::format("{}: at no setting is the loss of any unit a finite number", set.prompts.front().path()));
  validation.certainty = validation.about().evidence.certainty;

  const std::size_t shown = validation.stopped.value_or(validation.members.size() - 1);
  JudgedAssignment& in_the_way = validation.members[shown];
  if (validation.stopped)
    if (const std::optional<std::int64_t> certifying =
            prompts_to_decide(evidence_of(shown), in_the_way.evidence, request.targets, request.guarantee))
      plan_prompts(*certifying, static_cast<std::int64_t>(set.num_clusters()), options.choosing, validation);
  const std::size_t about = validation.passed.value_or(0);
  validation.numbers = evidence_of(about);
  if (validation.passed)  // by other targets the units would have other settings
    find_passing_values(validation.numbers, request.targets, request.guarantee, validation.members[about].evidence);
  std::vector<Miss> misses = misses_of(numbers[shown], request.targets);
  for (Miss& miss : misses) miss.prompt = split.certifying[miss.prompt];
  validation.offenders = find_offenders(set, request.targets, misses,
                                        settings_of_heads(set, validation.units, in_the_way.assignment), kMaxOffenders);
  return validation;
}

}  // namespace attest
