// The verdict as text.
#include "experiments/validation/verdict_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "experiments/study_view/words.h"
#include "experiments/validation/verdict_sentences.h"

namespace attest {
namespace {

void add_line(std::vector<VerdictLine>& lines, std::string name, std::string text) {
  if (!text.empty()) lines.push_back({std::move(name), std::move(text)});
}

/// Says what one setting for all reads, beside the family. Where it reads less, it is the better choice.
std::string single_text(const Judgement& judgement) {
  const Validation& single = judgement.single;
  const std::int64_t prompts = single.about().evidence.prompts;
  const Guarantee& guarantee = judgement.request.guarantee;
  if (!single.passed)
    return fmt::format("no single {} is {} on all {}", judgement.set.candidates.empty() ? "setting" : "candidate",
                       guarantee.certifies() ? "certified" : "shown to do", counted_units(judgement.set, prompts));
  // Either is wrong with probability alpha at most, so that one of them is with 2 alpha.
  const std::string both = passes(judgement.certainty()) && guarantee.certifies()
                               ? fmt::format("; a choice between the two holds at {:.6g} %",
                                             100 * std::max(0.0, 1 - 2 * (1 - guarantee.confidence)))
                               : "";
  return fmt::format("{} is {} on all {}, and {}{}{}", judgement.setting_text(single.about().setting),
                     name_of(single.certainty), counted_units(judgement.set, prompts),
                     costs_text(single.about().keep, single.about().io),
                     judgement.single_reads_less()
                         ? fmt::format(", no more than one per {}: take it instead", unit_name(judgement.units->kind))
                         : "",
                     both);
}

/// Says which prompts chose the assignment, and what was drawn where all prompts judge.
std::string split_text(const Judgement& judgement) {
  const Guarantee& guarantee = judgement.request.guarantee;
  const bool drawn = guarantee.kind == GuaranteeKind::mean && guarantee.bound != MeanBound::hb;
  const std::size_t prompts = judgement.set.prompts.size();
  return fmt::format("{}; {}",
                     prompts == 1 ? "the only prompt judges" : fmt::format("all {} prompts judge, none chose", prompts),
                     drawn ? fmt::format("drawn with seed {}", guarantee.seed)
                           : fmt::format("nothing is drawn (seed {})", guarantee.seed));
}

void add_units(std::vector<VerdictLine>& lines, const Judgement& judgement) {
  const UnitValidation& units = *judgement.units;
  add_line(lines, "chosen",
           fmt::format("on {} drawn with seed {} (--choose {:g}%); judged on {} as one {}, not {} by {}",
                       counted(std::ssize(units.choosing), "prompt"), judgement.unit_request.seed,
                       judgement.unit_request.choosing * 100, counted(std::ssize(units.certifying), "other"),
                       units.allocation ? "assignment" : "family", unit_name(units.kind), unit_name(units.kind)));
  add_line(lines, judgement.choices(),
           fmt::format("{} {}s: {}", units.units.size(), unit_name(units.kind),
                       assignment_text(judgement, units.about().assignment)));
  if (!units.allocation) return;
  add_line(lines, "allocation",
           fmt::format("mean loss {:.4g} on the choosing prompts, in units of what the targets allow; no assignment "
                       "within {} is below {:.4g}",
                       std::max(0.0, units.allocation->loss), percent_in_words(*judgement.unit_request.io_budget),
                       std::max(0.0, units.allocation->relaxed_loss)));  // but for rounding, no loss is below 0
  add_line(lines, "single",
           units.single_in_budget
               ? fmt::format("{} for all reads {} and loses {:.4g}", judgement.setting_text(*units.single_in_budget),
                             percent_in_words(units.single_io), units.single_loss)
               : fmt::format("no single {} reads as little",
                             judgement.set.candidates.empty() ? "setting of the grid" : "candidate"));
}

}  // namespace

std::string verdict_heading(const Judgement& judgement) {
  const std::string selector = printable(judgement.set.selector.label), model = printable(judgement.set.model);
  const std::string certainty = judgement.certainty() == Certainty::shown ? "shown, which certifies nothing"
                                                                          : std::string(name_of(judgement.certainty()));
  if (judgement.units)
    return fmt::format("{}: {} {} per {} for {}", certainty,
                       judgement.set.candidates.empty() ? "settings of" : "of the candidates", selector,
                       unit_name(judgement.units->kind), model);
  const Validation& single = judgement.single;
  const std::string setting = judgement.setting_text(single.about().setting);
  const std::string of = setting == selector                ? setting
                         : judgement.set.candidates.empty() ? fmt::format("{} of {}", setting, selector)
                                                            : fmt::format("{} of the candidates {}", setting, selector);
  if (single.passed || !single.chosen) return fmt::format("{}: {} for {}", certainty, of, model);
  const char* const done = judgement.request.guarantee.certifies() ? "certified" : "shown to do";
  // Where answers are judged, only the settings that were answered are.
  const bool all_judged = judgement.request.grid.empty() && single.settings.size() == judgement.set.settings.size();
  if (single.settings.size() == 1) return fmt::format("{}: {} is not {} for {}", certainty, of, done, model);
  if (!judgement.set.candidates.empty())
    return fmt::format("{}: not even {}, the first {}of the candidates {}, is {} for {}", certainty, setting,
                       all_judged ? "" : "judged ", selector, done, model);
  const bool smallest = judgement.set.selector.kind == SettingKind::factor;
  return fmt::format("{}: not even {}, the {} {}, is {} for {}", certainty, of, smallest ? "smallest" : "largest",
                     all_judged ? "studied" : "judged", done, model);
}

std::vector<VerdictLine> verdict_lines(const Judgement& judgement) {
  std::vector<VerdictLine> lines;
  const bool passed = passes(judgement.certainty());
  if (judgement.units && judgement.single_reads_less()) add_line(lines, "one for all", single_text(judgement));
  add_line(lines, "can show", power_text(judgement));
  add_line(lines,
           judgement.certainty() == Certainty::certified ? "guarantee"
           : passed                                      ? "shown"
                                                         : "not shown",
           guarantee_sentence(judgement));
  add_line(lines, "evidence", evidence_text(judgement, judgement.evidence()));
  add_line(lines, "prompts", "prompts " + scope_text(judgement.set));
  add_line(lines, "engine", engines_text(judgement.set));
  add_line(lines, "covers", coverage_text(judgement));
  if (judgement.extrapolated_to)
    add_line(lines, "beyond",
             fmt::format("extrapolated to contexts of {} tokens: no prompt is as {}, and nothing of this was measured "
                         "there",
                         *judgement.extrapolated_to,
                         *judgement.extrapolated_to > judgement.set.longest() ? "long" : "short"));
  if (judgement.units) {
    add_units(lines, judgement);
    if (!judgement.single_reads_less()) add_line(lines, "one for all", single_text(judgement));
    add_line(lines, "costs", costs_text(judgement.units->about().keep, judgement.units->about().io));
  } else {
    add_line(lines, "split", split_text(judgement));
    add_line(lines, "costs", costs_text(judgement.single.about().keep, judgement.single.about().io));
  }
  add_line(lines, "passes at", passes_text(judgement));
  if (judgement.request.guarantee.kind == GuaranteeKind::mean) add_line(lines, "clipped", beyond_text(judgement));
  for (const std::string& sentence : uncounted_prompts(judgement)) add_line(lines, "note", sentence);
  if (!judgement.units) {
    if (judgement.single.by_task.size() > 1)
      add_line(lines, "by task", groups_text(judgement.single.by_task) + " violate");
    if (judgement.single.by_length.size() > 1)
      add_line(lines, "by length", groups_text(judgement.single.by_length) + " violate");
  }
  // The evidence is told already if there is one setting or one assignment, or if even the safest did not pass.
  if (judgement.stopped() && passed)
    add_line(lines, "in the way", stop_text(judgement));
  else if (judgement.stopped())
    add_line(lines, "to decide", decision_text(judgement));
  if (!judgement.units) add_line(lines, "wrong", wrong_answers_text(judgement));
  return lines;
}

std::string together_text(std::size_t verdicts, const Guarantee& guarantee) {
  if (verdicts < 2) return {};
  const auto count = static_cast<double>(verdicts);
  if (!guarantee.certifies()) return "Picking the best of these selectors is a choice by the same prompts.";
  const double together = 1 - count * (1 - guarantee.confidence);
  return fmt::format(
      "Each of these {} verdicts holds at its own {:.6g} %. That the best of them was picked afterwards is not "
      "covered: {}; with --confidence {:.6g}% they hold together, and a pick, at {:.6g} %.",
      verdicts, guarantee.confidence * 100,
      together > 0 ? fmt::format("all together hold at {:.6g} %", together * 100) : "together they hold at no level",
      100 - (1 - guarantee.confidence) / count * 100, guarantee.confidence * 100);
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
