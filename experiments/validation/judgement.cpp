// Sentences that all outputs of a verdict share.
#include "experiments/validation/judgement.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "dumps/base/join.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

/// "miss recall>=0.9 or lse_error<=0.1": a prompt violates if it misses any of the targets.
std::string misses_text(const std::vector<Target>& targets) {
  std::vector<std::string> texts;
  bool answers = false;
  for (const Target& target : targets) {
    if (target.of_answers())
      answers = true;
    else
      texts.push_back(target.text);
  }
  const std::string wrong = "are answered wrong where dense attention answers right";
  if (texts.empty()) return wrong;
  return fmt::format("miss {}{}", join(texts, " or "), answers ? " or " + wrong : "");
}

std::string mean_sentence(const Judgement& judgement) {
  const Guarantee& guarantee = judgement.request.guarantee;
  std::vector<std::string> parts;
  for (const Target& target : judgement.request.targets)
    parts.push_back(
        fmt::format("of {} is at most {:.4g} ({}, clipped at {:.4g})",
                    target.at_least ? fmt::format("1 - {}", target.quantity.quantity()) : target.quantity.quantity(),
                    target.allowed_deficit(), target.text, guarantee.clip_of(target)));
  const std::string by = guarantee.certifies() ? fmt::format("with {:.6g} % confidence", guarantee.confidence * 100)
                                               : "by a bootstrap, which holds no level,";
  return fmt::format("{} the mean over {} like these {}", by, units_text(judgement.set), join(parts, " and "));
}

}  // namespace

const Evidence& Judgement::evidence() const { return units ? units->about().evidence : single.about().evidence; }

const Evidence& Judgement::evidence_in_the_way() const {
  return units ? units->in_the_way().evidence : single.in_the_way().evidence;
}

const std::string& Judgement::label(std::size_t setting) const {
  static const std::string dense = "dense";
  return setting == kDense ? dense : set.selector.setting_labels[setting];
}

std::string Judgement::setting_text(std::size_t setting) const {
  if (!set.candidates.empty()) return printable(label(setting));
  if (set.selector.kind == SettingKind::none) return printable(set.selector.label);
  return fmt::format("{} {}", name_of(set.selector.kind), printable(label(setting)));
}

std::string units_text(const PromptSet& set) {
  return set.cluster_key.empty() ? "prompts" : fmt::format("groups of prompts of one {}", printable(set.cluster_key));
}

std::string guarantee_sentence(const Judgement& judgement) {
  const Guarantee& guarantee = judgement.request.guarantee;
  const std::string misses = misses_text(judgement.request.targets);
  switch (guarantee.kind) {
    case GuaranteeKind::prompts:
      return fmt::format("with {:.6g} % confidence at most {:.6g} % of prompts like these {}",
                         guarantee.confidence * 100, guarantee.max_violating * 100, misses);
    case GuaranteeKind::mean:
      return mean_sentence(judgement);
    case GuaranteeKind::observed:
      break;
  }
  return fmt::format("at most {:.6g} % of these {} {} {}; nothing is inferred about any other prompt",
                     guarantee.max_violating * 100, judgement.evidence().prompts, units_text(judgement.set), misses);
}

std::string scope_text(const PromptSet& set) {
  std::set<std::string> tasks;
  for (const Prompt& prompt : set.prompts)
    if (!prompt.task.empty()) tasks.insert(prompt.task);
  const std::string lengths = set.shortest() == set.longest()
                                  ? fmt::format("{} tokens", set.shortest())
                                  : fmt::format("{} to {} tokens", set.shortest(), set.longest());
  const std::string layers =
      set.all_layers ? "" : fmt::format(", judged in {} of {}", set.layers.size(), counted(set.num_layers, "layer"));
  if (tasks.empty()) return fmt::format("prompts of {}{}", lengths, layers);
  return printable(fmt::format("prompts of the task{} {} with {}{}", tasks.size() == 1 ? "" : "s", join(tasks, ", "),
                               lengths, layers));
}

}  // namespace attest
