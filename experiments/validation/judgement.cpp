// Sentences that all outputs of a verdict share.
#include "experiments/validation/judgement.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "dumps/base/join.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

/// "miss recall>=0.9 or lse_error<=0.1": a prompt violates if it misses any of the targets. Of groups, which violate if
/// one of their prompts does: "have a prompt that misses recall>=0.9".
std::string misses_text(const PromptSet& set, const std::vector<Target>& targets) {
  const bool groups = !set.cluster_key.empty();
  std::vector<std::string> texts;
  bool answers = false;
  for (const Target& target : targets) {
    if (target.of_answers())
      answers = true;
    else
      texts.push_back(target.text);
  }
  const std::string wrong = fmt::format("{} answered wrong where dense attention answers right", groups ? "is" : "are");
  const std::string misses = fmt::format("{} {}", groups ? "misses" : "miss", join(texts, " or "));
  return fmt::format("{}{}{}{}", groups ? "have a prompt that " : "", texts.empty() ? "" : misses,
                     !texts.empty() && answers ? " or " : "", answers ? wrong : "");
}

std::string mean_sentence(const Judgement& judgement) {
  const Guarantee& guarantee = judgement.request.guarantee;
  std::vector<std::string> parts;
  for (const Target& target : judgement.request.targets) {
    const std::string number = target.text.substr(0, target.text.find_first_of("<>"));
    parts.push_back(fmt::format("of {} is at most {:.4g} ({}, clipped at {:.4g})",
                                target.at_least ? fmt::format("1 - {}", number) : number, target.allowed_deficit(),
                                target.text, guarantee.clip_of(target)));
  }
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

std::string counted_units(const PromptSet& set, std::int64_t count) {
  if (set.cluster_key.empty()) return counted(count, "prompt");
  return fmt::format("{} of prompts of one {}", counted(count, "group"), printable(set.cluster_key));
}

std::string range_text(std::int64_t low, std::int64_t high) {
  return low == high ? std::to_string(low) : fmt::format("{} to {}", low, high);
}

std::optional<std::pair<std::int64_t, std::int64_t>> judged_queries(const PromptSet& set) {
  std::optional<std::pair<std::int64_t, std::int64_t>> range;
  for (const Prompt& prompt : set.prompts) {
    if (prompt.file == nullptr) continue;
    const std::int64_t queries = std::ssize(prompt.of_study().query_positions);
    range = {std::min(range.value_or(std::pair(queries, queries)).first, queries),
             std::max(range.value_or(std::pair(queries, queries)).second, queries)};
  }
  return range;
}

std::string guarantee_sentence(const Judgement& judgement) {
  const Guarantee& guarantee = judgement.request.guarantee;
  const std::string misses = misses_text(judgement.set, judgement.request.targets);
  switch (guarantee.kind) {
    case GuaranteeKind::prompts:
      return fmt::format("with {:.6g} % confidence at most {:.6g} % of {} like these {}", guarantee.confidence * 100,
                         guarantee.max_violating * 100, units_text(judgement.set), misses);
    case GuaranteeKind::mean:
      return mean_sentence(judgement);
    case GuaranteeKind::observed:
      break;
  }
  return fmt::format("at most {:.6g} % of these {} {}; nothing is inferred about any other prompt",
                     guarantee.max_violating * 100, counted_units(judgement.set, judgement.evidence().prompts), misses);
}

std::string scope_text(const PromptSet& set) {
  std::set<std::string> tasks;
  for (const Prompt& prompt : set.prompts)
    if (!prompt.task.empty()) tasks.insert(prompt.task);
  const std::string lengths = fmt::format("{} tokens", range_text(set.shortest(), set.longest()));
  const std::string layers =
      set.all_layers ? "" : fmt::format(", judged in {} of {}", set.layers.size(), counted(set.num_layers, "layer"));
  if (tasks.empty()) return fmt::format("of {}{}", lengths, layers);
  return printable(
      fmt::format("of the task{} {} with {}{}", tasks.size() == 1 ? "" : "s", join(tasks, ", "), lengths, layers));
}

}  // namespace attest
