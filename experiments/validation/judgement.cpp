// Sentences that all outputs of a verdict share.
#include "experiments/validation/judgement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "dumps/base/printable.h"

namespace attest {
namespace {

std::string joined_targets(const std::vector<Target>& targets) {
  std::vector<std::string> texts;
  for (const Target& target : targets) texts.push_back(target.text);
  return fmt::format("{}", fmt::join(texts, " or "));
}

std::string mean_sentence(const Judgement& judgement) {
  const Claim& claim = judgement.request.claim;
  std::vector<std::string> parts;
  for (const Target& target : judgement.request.targets)
    parts.push_back(
        fmt::format("of {} is at most {:.4g} ({}, clipped at {:.4g})",
                    target.at_least ? fmt::format("1 - {}", target.quantity.quantity()) : target.quantity.quantity(),
                    target.allowed_deficit(), target.text, claim.clip_of(target)));
  return fmt::format("with {}{:.6g} % confidence the mean over prompts like these {}",
                     claim.bound == MeanBound::bootstrap ? "about " : "", claim.confidence * 100,
                     fmt::join(parts, " and "));
}

}  // namespace

const Evidence& Judgement::evidence() const {
  return units ? units->members[units->certified.value_or(0)].evidence : single.about().evidence;
}

const Evidence& Judgement::evidence_in_the_way() const {
  return units ? units->members[units->stopped.value_or(units->certified.value_or(0))].evidence
               : single.in_the_way().evidence;
}

const std::string& Judgement::label(std::size_t setting) const {
  static const std::string dense = "dense";
  return setting == kDense ? dense : set.selector.setting_labels[setting];
}

std::string Judgement::setting_text(std::size_t setting) const {
  if (set.selector.kind == SettingKind::none) return printable(set.selector.label);
  return fmt::format("{} {}", name_of(set.selector.kind), printable(label(setting)));
}

std::string claim_sentence(const Judgement& judgement) {
  const Claim& claim = judgement.request.claim;
  const std::string targets = joined_targets(judgement.request.targets);
  // The targets are what must hold, so that a prompt violates if it misses any of them.
  const std::string misses = fmt::format("miss {}", targets);
  switch (claim.kind) {
    case ClaimKind::prompts:
      return fmt::format("with {:.6g} % confidence at most {:.6g} % of prompts like these {}", claim.confidence * 100,
                         claim.max_violating * 100, misses);
    case ClaimKind::mean:
      return mean_sentence(judgement);
    case ClaimKind::observed:
      break;
  }
  return fmt::format("at most {:.6g} % of these {} prompts {}; nothing is inferred about any other prompt",
                     claim.max_violating * 100, judgement.evidence().prompts, misses);
}

std::string scope_text(const PromptSet& set) {
  std::set<std::string> tasks;
  for (const Prompt& prompt : set.prompts)
    if (!prompt.task.empty()) tasks.insert(prompt.task);
  const std::string lengths = set.shortest() == set.longest()
                                  ? fmt::format("{} tokens", set.shortest())
                                  : fmt::format("{} to {} tokens", set.shortest(), set.longest());
  const std::string layers =
      set.all_layers ? "" : fmt::format(", judged in {} of {} layers", set.layers.size(), set.num_layers);
  if (tasks.empty()) return fmt::format("prompts of {}{}", lengths, layers);
  return printable(fmt::format("prompts of the task{} {} with {}{}", tasks.size() == 1 ? "" : "s",
                               fmt::join(tasks, ", "), lengths, layers));
}

}  // namespace attest
