// The verdict as text.
#include "experiments/validation/verdict_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "dumps/base/printable.h"

namespace attest {
namespace {

std::string percent(double share) { return std::isnan(share) ? "?" : fmt::format("{:.3g} %", share * 100); }

std::string costs_text(double keep, double io) {
  if (std::isnan(keep) && std::isnan(io)) return {};
  return fmt::format("keeps {} of the tokens and reads {} of the bytes of dense attention", percent(keep), percent(io));
}

/// Enough digits that a number just beside a target does not look like it.
std::string number(double x) { return fmt::format("{:.6g}", x); }

std::string unit_name(UnitKind kind) { return kind == UnitKind::layer ? "layer" : "KV head"; }

/// The same, rounded to the side on which the target is easier to meet.
std::string passing_number(double x, bool at_least) {
  const auto rounded = [](double y) { return std::stod(number(y)); };
  const double digit = x == 0 ? 0 : std::pow(10, std::floor(std::log10(std::abs(x))) - 5);
  if (at_least ? rounded(x) > x : rounded(x) < x) x += at_least ? -digit : digit;
  return number(x);
}

/// "128 KV heads: 100 at delta 5, 28 dense"
std::string assignment_text(const Judgement& judgement, const Assignment& assignment) {
  std::map<std::size_t, std::size_t> counts;
  for (const std::size_t setting : assignment) ++counts[setting];
  std::vector<std::string> parts;
  const auto add = [&](std::size_t setting) {
    if (const auto found = counts.find(setting); found != counts.end())
      parts.push_back(fmt::format("{} at {}", found->second, printable(judgement.label(setting))));
  };
  for (auto s = judgement.set.settings.rbegin(); s != judgement.set.settings.rend(); ++s) add(*s);
  if (counts.contains(kDense)) parts.push_back(fmt::format("{} dense", counts[kDense]));
  constexpr std::size_t kMost = 12;
  if (parts.size() > kMost) {
    const std::size_t more = parts.size() - kMost;
    parts.resize(kMost);
    parts.push_back(fmt::format("and {} more settings", more));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// How many prompts would decide what is undecided.
std::string decision_text(const Judgement& judgement) {
  if (judgement.evidence_in_the_way().certainty != Certainty::undecided) return {};
  const std::vector<TargetEvidence>& targets = judgement.evidence_in_the_way().targets;
  if (std::ranges::any_of(targets, [](const TargetEvidence& target) { return target.prompts == 0; }))
    return "a target has no number there for any prompt, and more like these would not decide it";
  const auto needed = judgement.prompts_to_decide();
  return needed ? fmt::format("{} prompts would decide it if they went on like this", *needed)
                : "the observed number is so near the allowed one that no number of prompts that was tried would "
                  "decide it";
}

/// What ended the choice: "at delta 4.75 3 of 30 prompts violate: undecided; ...".
std::string stop_text(const Judgement& judgement) {
  const Evidence& evidence = judgement.evidence_in_the_way();
  const std::string at =
      judgement.units ? fmt::format("at the {} step of the family", judgement.units->certified ? "next" : "first")
                      : fmt::format("at {}", judgement.setting_text(judgement.single.in_the_way().setting));
  const std::string decision = decision_text(judgement);
  return fmt::format("{} {}: {}{}{}", at, evidence_text(judgement, evidence), name_of(evidence.certainty),
                     decision.empty() ? "" : "; ", decision);
}

std::string passes_text(const Judgement& judgement) {
  std::vector<std::string> parts;
  const Evidence& evidence = judgement.evidence();
  for (std::size_t t = 0; t < evidence.targets.size(); ++t) {
    const Target& target = judgement.request.targets[t];
    if (const std::optional<double> value = evidence.targets[t].passes_at)
      parts.push_back(fmt::format("{} {} {}", target.quantity.name(),
                                  target.at_least ? ">=" : "<=", passing_number(*value, target.at_least)));
  }
  return parts.empty() ? std::string() : fmt::format("{}", fmt::join(parts, ", "));
}

std::string beyond_text(const Judgement& judgement) {
  std::vector<std::string> parts;
  for (std::size_t t = 0; t < judgement.request.targets.size(); ++t) {
    const TargetEvidence& target = judgement.evidence().targets[t];
    parts.push_back(fmt::format("{}: {} of {} prompts are beyond {:.4g}, at most {} of all",
                                judgement.request.targets[t].text, target.beyond_clip, target.prompts,
                                judgement.request.claim.clip_of(judgement.request.targets[t]),
                                percent(target.beyond_clip_at_most)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string groups_text(const std::vector<PromptGroup>& groups) {
  std::vector<std::string> parts;
  for (const PromptGroup& group : groups)
    parts.push_back(fmt::format("{} {} of {}", group.name.empty() ? "no task" : printable(group.name), group.violations,
                                group.prompts));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void add_line(std::vector<VerdictLine>& lines, std::string name, std::string text) {
  if (!text.empty()) lines.push_back({std::move(name), std::move(text)});
}

void add_units(std::vector<VerdictLine>& lines, const Judgement& judgement) {
  const UnitValidation& units = *judgement.units;
  const JudgedAssignment& about = units.members[units.certified.value_or(0)];
  add_line(lines, "chosen",
           fmt::format("on {} prompts; judged on {} others as one {}, not {} by {}", units.choosing, units.certifying,
                       units.allocation ? "assignment" : "family", unit_name(units.kind), unit_name(units.kind)));
  add_line(lines, "settings",
           fmt::format("{} {}s: {}", units.units.size(), unit_name(units.kind),
                       assignment_text(judgement, about.assignment)));
  if (units.allocation) {
    add_line(lines, "allocation",
             fmt::format("mean loss {:.4g} on the choosing prompts, in units of what the targets allow; no assignment "
                         "within {} is below {:.4g}",
                         units.allocation->loss, percent(*judgement.unit_request.io_budget),
                         units.allocation->relaxed_loss));
    add_line(lines, "single",
             units.single_in_budget
                 ? fmt::format("{} for all reads {} and loses {:.4g}", judgement.setting_text(*units.single_in_budget),
                               percent(units.single_io), units.single_loss)
                 : "no single setting of the grid reads as little");
  }
  const Validation& single = judgement.single;
  add_line(
      lines, "one for all",
      single.certified
          ? fmt::format("{} is certified on all {} prompts, and {}", judgement.setting_text(single.about().setting),
                        single.about().evidence.prompts, costs_text(single.about().keep, single.about().io))
          : fmt::format("no single setting is certified on all {} prompts", single.about().evidence.prompts));
}

}  // namespace

std::string evidence_text(const Judgement& judgement, const Evidence& evidence) {
  const Claim& claim = judgement.request.claim;
  if (claim.kind == ClaimKind::mean) {
    std::vector<std::string> parts;
    for (std::size_t t = 0; t < evidence.targets.size(); ++t)
      parts.push_back(fmt::format("the mean deficit of {} is {:.4g} over {} prompts", judgement.request.targets[t].text,
                                  evidence.targets[t].mean_deficit, evidence.targets[t].prompts));
    constexpr std::string_view kBounds[] = {"Hoeffding-Bentkus", "betting", "bootstrap, approximate"};
    return fmt::format("{} (p = {:.3g}, {})", fmt::join(parts, ", "), evidence.p_value,
                       kBounds[static_cast<std::size_t>(claim.bound)]);
  }
  const std::string counts = fmt::format("{} of {} prompts violate", evidence.violations, evidence.prompts);
  if (claim.kind == ClaimKind::observed) return counts;
  return fmt::format("{} (share {} to {}, p = {:.3g})", counts, percent(evidence.share.low),
                     percent(evidence.share.high), evidence.p_value);
}

std::string offender_text(const Judgement& judgement, const Offender& offender) {
  const Target& target = judgement.request.targets[offender.target];
  const std::string head = offender.head ? fmt::format(", head {}", *offender.head) : "";
  const std::string enough = judgement.set.selector.kind == SettingKind::none ? ""
                             : offender.enough ? fmt::format("; {} would do", judgement.setting_text(*offender.enough))
                                               : "; no setting of the grid would do";
  return fmt::format("layer {}{}, prompt {}, query {}: {} {} {} {} at {}{}", offender.layer, head,
                     printable(judgement.set.prompts[offender.prompt].name), offender.query_position,
                     target.quantity.quantity(), number(offender.value), target.at_least ? "<" : ">",
                     number(target.value), judgement.setting_text(offender.setting), enough);
}

std::vector<std::string> uncounted_prompts(const Judgement& judgement) {
  std::vector<std::string> sentences;
  const auto all = static_cast<std::int64_t>(judgement.set.prompts.size());
  if (judgement.set.in_fewer_layers > 0)
    sentences.push_back(
        fmt::format("{} of {} prompts were studied in fewer layers than others; each is judged in its own",
                    judgement.set.in_fewer_layers, all));
  for (std::size_t t = 0; t < judgement.request.targets.size(); ++t)
    if (const std::int64_t counted = judgement.single.about().evidence.targets[t].prompts; counted < all) {
      const Target& target = judgement.request.targets[t];
      sentences.push_back(fmt::format("{} of {} prompts do not count for {}: {}", all - counted, all, target.text,
                                      target.quantity.metric.starts_with("span_")
                                          ? "they have no span, or no head that attends to it"
                                          : "it is not defined for any of their cells"));
    }
  return sentences;
}

std::string verdict_heading(const Judgement& judgement) {
  const std::string selector = printable(judgement.set.selector.label), model = printable(judgement.set.model);
  const Validation& single = judgement.single;
  if (judgement.units) {
    const std::string what = fmt::format("settings of {} per {}", selector, unit_name(judgement.units->kind));
    return fmt::format("{}: {} for {}", name_of(judgement.certainty()), what, model);
  }
  const std::string setting = judgement.setting_text(single.about().setting);
  const std::string of = setting == selector ? setting : fmt::format("{} of {}", setting, selector);
  if (single.certified || !single.chosen)
    return fmt::format("{}: {} for {}", name_of(judgement.certainty()), of, model);
  return fmt::format("{}: not even {}, the safest setting, is certified for {}", name_of(judgement.certainty()), of,
                     model);
}

std::vector<VerdictLine> verdict_lines(const Judgement& judgement) {
  std::vector<VerdictLine> lines;
  const bool certified = judgement.certainty() == Certainty::certified;
  add_line(lines, certified ? "claim" : "not shown", claim_sentence(judgement));
  add_line(lines, "evidence", evidence_text(judgement, judgement.evidence()));
  add_line(lines, "prompts", scope_text(judgement.set));
  if (judgement.extrapolated_to)
    add_line(lines, "beyond",
             fmt::format("extrapolated to contexts of {} tokens: no prompt is as {}, and nothing of this was measured "
                         "there",
                         *judgement.extrapolated_to,
                         *judgement.extrapolated_to > judgement.set.longest() ? "long" : "short"));
  if (judgement.units) {
    add_units(lines, judgement);
    const JudgedAssignment& about = judgement.units->members[judgement.units->certified.value_or(0)];
    add_line(lines, "costs", costs_text(about.keep, about.io));
  } else {
    add_line(lines, "costs", costs_text(judgement.single.about().keep, judgement.single.about().io));
  }
  add_line(lines, "passes at", passes_text(judgement));
  if (judgement.request.claim.kind == ClaimKind::mean) add_line(lines, "beyond", beyond_text(judgement));
  for (const std::string& sentence : uncounted_prompts(judgement)) add_line(lines, "note", sentence);
  if (!judgement.units) {
    if (judgement.single.by_task.size() > 1)
      add_line(lines, "by task", groups_text(judgement.single.by_task) + " violate");
    if (judgement.single.by_length.size() > 1)
      add_line(lines, "by length", groups_text(judgement.single.by_length) + " violate");
  }
  // Of one setting or one assignment, and where even the safest is not certified, the evidence is told already.
  if (judgement.stopped() && certified)
    add_line(lines, "in the way", stop_text(judgement));
  else if (judgement.stopped())
    add_line(lines, "to decide", decision_text(judgement));
  const std::int64_t fewest = fewest_prompts(judgement.request.claim, judgement.request.targets);
  if (!certified && judgement.evidence().prompts < fewest)
    add_line(lines, "too few", fmt::format("this claim takes at least {} prompts, all without a violation", fewest));
  return lines;
}

std::string verdict_text(const Judgement& judgement) {
  std::vector<VerdictLine> lines = verdict_lines(judgement);
  const Offenders& offenders = judgement.offenders();
  const std::size_t shown = std::min(offenders.worst.size(), kShownOffenders);
  for (std::size_t i = 0; i < shown; ++i)
    add_line(lines, i == 0 ? "worst" : "", offender_text(judgement, offenders.worst[i]));
  if (offenders.count > static_cast<std::int64_t>(shown))
    add_line(lines, "",
             fmt::format("and {} more cells of violating prompts", offenders.count - static_cast<std::int64_t>(shown)));
  std::string text = verdict_heading(judgement) + "\n";
  for (const VerdictLine& line : lines) text += fmt::format("  {:<13}{}\n", line.name, line.text);
  return text;
}

}  // namespace attest
