// Sentences about evidence, each of which makes sense alone.
#include "experiments/validation/verdict_sentences.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>

#include "analysis/statistics/model_cells.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

/// Enough digits that a number just beside a target does not look like it.
std::string number(double x) { return fmt::format("{:.6g}", x); }

/// The number, rounded to the side on which the target is easier to meet.
std::string passing_number(double x, bool at_least) {
  const auto rounded = [](double y) { return std::strtod(number(y).c_str(), nullptr); };
  const double digit = x == 0 ? 0 : std::pow(10, std::floor(std::log10(std::abs(x))) - 5);
  if (at_least ? rounded(x) > x : rounded(x) < x) x += at_least ? -digit : digit;
  return number(x);
}

/// A warning about a statistic that demands something of a prompt's better cells alone.
std::string lenient_text(const Target& target) {
  const CellStatistic statistic = target.quantity.statistic;
  const double share = target.quantity.level;
  const bool best = target.at_least ? statistic == CellStatistic::max : statistic == CellStatistic::min;
  const bool better_half = statistic == CellStatistic::quantile && (target.at_least ? share > 0.5 : share < 0.5);
  if (!best && !better_half) return {};
  const std::string name = target.quantity.quantity();
  if (best)
    return fmt::format("{} asks only of the best cell of each prompt; {}.{} asks of every cell", target.text, name,
                       target.at_least ? "min" : "max");
  const double better = 100 * (target.at_least ? 1 - share : share), mirrored = std::round(1e8 * (1 - share)) / 1e6;
  return fmt::format(
      "{} asks only of the best {:.4g} % of the cells of each prompt; {}.p{}{:.4g} asks of all but the worst {:.4g} %",
      target.text, better, name, mirrored >= 1 && mirrored < 10 ? "0" : "", mirrored, better);
}

}  // namespace

std::string costs_text(double keep, double io) {
  if (std::isnan(keep) && std::isnan(io)) return {};
  const std::string kept = std::isnan(keep) ? "" : fmt::format("keeps {} of the tokens", percent_in_words(keep));
  const std::string read =
      std::isnan(io) ? "" : fmt::format("reads {} of the bytes of dense attention", percent_in_words(io));
  return fmt::format("{}{}{}", kept, kept.empty() || read.empty() ? "" : " and ", read);
}

std::string unit_name(UnitKind kind) { return kind == UnitKind::layer ? "layer" : "KV head"; }

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
  constexpr std::size_t kMax = 12;
  if (parts.size() > kMax) {
    const std::size_t more = parts.size() - kMax;
    parts.resize(kMax);
    parts.push_back(fmt::format("and {} more {}", more, judgement.choices()));
  }
  return join(parts, ", ");
}

std::string decision_text(const Judgement& judgement) {
  if (judgement.evidence_in_the_way().certainty != Certainty::undecided) return {};
  const std::vector<TargetEvidence>& targets = judgement.evidence_in_the_way().targets;
  if (std::ranges::any_of(targets, [](const TargetEvidence& target) { return target.prompts == 0; }))
    return "a target has no number there for any prompt, and more like these would not decide it";
  const auto needed = judgement.prompts_to_decide();
  if (!needed)
    return "the observed number is so near the allowed one that no number of prompts that was tried would decide it";
  std::string text =
      fmt::format("{} in all would decide it if they went on like this", counted_units(judgement.set, *needed));
  if (judgement.units && judgement.units->smaller_choice)
    text += fmt::format("; so would these {} with --choose {:g}%", judgement.set.num_clusters(),
                        std::round(*judgement.units->smaller_choice * 100));
  return text;
}

std::string stop_text(const Judgement& judgement) {
  const Evidence& evidence = judgement.evidence_in_the_way();
  const std::string at = judgement.units
                             ? fmt::format("at the {} step of the family", judgement.units->passed ? "next" : "first")
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
    if (const std::optional<double> value = evidence.targets[t].passes_at; value && !target.of_answers())
      parts.push_back(fmt::format("{} {} {}", target.quantity.name(),
                                  target.at_least ? ">=" : "<=", passing_number(*value, target.at_least)));
  }
  if (parts.empty()) return {};
  // A test of both after the fact is no test of what was picked by them: its level is not alpha.
  return fmt::format("{}{}", join(parts, ", "),
                     parts.size() > 1 ? "; all hold together; as targets they need new prompts" : "");
}

std::string beyond_text(const Judgement& judgement) {
  std::vector<std::string> parts;
  for (std::size_t t = 0; t < judgement.request.targets.size(); ++t) {
    const TargetEvidence& target = judgement.evidence().targets[t];
    parts.push_back(fmt::format("{}: {} of {} are beyond {:.4g}, at most {} of all", judgement.request.targets[t].text,
                                target.beyond_clip, counted_units(judgement.set, target.prompts),
                                judgement.request.guarantee.clip_of(judgement.request.targets[t]),
                                percent_in_words(target.beyond_clip_at_most)));
  }
  return join(parts, "; ");
}

std::string groups_text(const std::vector<PromptGroup>& groups) {
  std::vector<std::string> parts;
  for (const PromptGroup& group : groups)
    parts.push_back(fmt::format("{} {} of {}", printable(task_title(group.name)), group.violations, group.prompts));
  return join(parts, ", ");
}

std::string engines_text(const PromptSet& set) {
  std::set<std::string> engines;
  bool recorded = false;
  for (const Prompt& prompt : set.prompts) {
    if (prompt.file == nullptr) continue;
    const StudyDump& dump = prompt.file->study().dumps[prompt.dump];
    recorded = recorded || !dump.engine.empty() || !dump.kv_cache.empty();
    engines.insert(engine_in_words(dump.engine, dump.kv_cache));
  }
  return recorded ? join(engines, "; ") : "";
}

std::string coverage_text(const Judgement& judgement) {
  const PromptSet& set = judgement.set;
  std::vector<std::string> parts;
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
  for (const Prompt& prompt : set.prompts) {
    if (prompt.file == nullptr) continue;
    for (const std::int64_t position : prompt.of_study().query_positions) {
      first = std::min(first, position);
      last = std::max(last, position);
    }
  }
  const auto [fewest, most] = judged_queries(set).value_or(std::pair<std::int64_t, std::int64_t>());
  const bool answers = std::ranges::any_of(judgement.request.targets, &Target::of_answers);
  if (most > 0)
    parts.push_back(fmt::format(
        "{} {} of each prompt, at position{} {}; there every layer has exact inputs, so that errors do not add up from "
        "layer to layer{}",
        range_text(fewest, most), most == 1 ? "query" : "queries", first == last ? "" : "s", range_text(first, last),
        answers ? "" : ", and no answer is judged"));
  if (answers) parts.emplace_back("answers of the whole model, with the errors of all layers");
  parts.push_back(set.cluster_key.empty() ? "prompts are taken as independent: --cluster KEY where several share a text"
                                          : fmt::format("prompts of one {} count once: {} of them",
                                                        printable(set.cluster_key), set.num_clusters()));
  return join(parts, "; ");
}

std::string wrong_answers_text(const Judgement& judgement) {
  const std::vector<std::size_t>& wrong = judgement.single.wrong_answers;
  if (wrong.empty()) return {};
  const auto name = [&](std::size_t prompt) { return printable(judgement.set.prompts[prompt].name); };
  return fmt::format("{} at {}", first_few(wrong, 10, ", ", name),
                     judgement.setting_text(judgement.single.in_the_way().setting));
}

std::string power_text(const Judgement& judgement) {
  const Guarantee& guarantee = judgement.request.guarantee;
  if (!guarantee.certifies()) return {};
  std::int64_t counting = judgement.evidence().prompts;
  for (const TargetEvidence& target : judgement.evidence().targets) counting = std::min(counting, target.prompts);
  const std::int64_t fewest = fewest_prompts(guarantee, judgement.request.targets);
  std::string text;
  if (guarantee.kind == GuaranteeKind::prompts)
    text = fmt::format("{}, {}, {} a share of {} at best", counted_units(judgement.set, counting),
                       counting == 1 ? "if it does not violate" : "none of which violates",
                       counting == 1 ? "certifies" : "certify",
                       percent_in_words(share_upper_bound(0, counting, guarantee.confidence)));
  if (counting < fewest)
    text += fmt::format("{}this guarantee takes at least {}, all without a {}", text.empty() ? "" : "; ",
                        counted_units(judgement.set, fewest),
                        guarantee.kind == GuaranteeKind::mean ? "deficit" : "violation");
  return text;
}

std::string evidence_text(const Judgement& judgement, const Evidence& evidence) {
  const Guarantee& guarantee = judgement.request.guarantee;
  if (guarantee.kind == GuaranteeKind::mean) {
    std::vector<std::string> parts;
    for (std::size_t t = 0; t < evidence.targets.size(); ++t)
      parts.push_back(fmt::format("the mean deficit of {} is {:.4g} over {}", judgement.request.targets[t].text,
                                  evidence.targets[t].mean_deficit,
                                  counted_units(judgement.set, evidence.targets[t].prompts)));
    const std::string drawn = fmt::format("drawn with seed {}", guarantee.seed);
    const std::string bound = guarantee.bound == MeanBound::hb    ? "Hoeffding-Bentkus"
                              : guarantee.bound == MeanBound::wsr ? "betting in an order " + drawn
                                                                  : "bootstrap, which holds no level, " + drawn;
    return fmt::format("{} (p = {:.3g}, {})", join(parts, ", "), evidence.p_value, bound);
  }
  const std::string counts =
      fmt::format("{} of {} violate", evidence.violations, counted_units(judgement.set, evidence.prompts));
  if (guarantee.kind == GuaranteeKind::observed) return counts;
  return fmt::format("{} (share {} to {}, p = {:.3g})", counts, percent_in_words(evidence.share.low),
                     percent_in_words(evidence.share.high), evidence.p_value);
}

std::string offender_text(const Judgement& judgement, const Offender& offender) {
  const Target& target = judgement.request.targets[offender.target];
  const std::string head = offender.head ? fmt::format(", head {}", *offender.head) : "";
  if (offender.of_row)
    return fmt::format("layer {}{}, prompt {}, query {}: {} {} in a row with {} {} {} {} at {}", offender.layer, head,
                       printable(judgement.set.prompts[offender.prompt].name), offender.query_position,
                       stored_part(target.quantity.metric), number(offender.value), target.quantity.quantity(),
                       number(*offender.of_row), target.at_least ? "<" : ">", number(target.value),
                       judgement.setting_text(offender.setting));
  const std::string enough = !judgement.set.has_choice() ? ""
                             : offender.enough ? fmt::format("; {} would do", judgement.setting_text(*offender.enough))
                             : judgement.set.candidates.empty() ? "; no setting of the grid would do"
                                                                : "; no candidate would do";
  return fmt::format("layer {}{}, prompt {}, query {}: {} {} {} {} at {}{}", offender.layer, head,
                     printable(judgement.set.prompts[offender.prompt].name), offender.query_position,
                     target.quantity.quantity(), number(offender.value), target.at_least ? "<" : ">",
                     target.text.substr(target.text.find('=') + 1), judgement.setting_text(offender.setting), enough);
}

std::vector<std::string> uncounted_prompts(const Judgement& judgement) {
  std::vector<std::string> sentences;
  const auto all = static_cast<std::int64_t>(judgement.set.prompts.size());
  if (judgement.set.in_fewer_layers > 0)
    sentences.push_back(fmt::format("{} of {} were studied in fewer layers than others; each is judged in its own",
                                    judgement.set.in_fewer_layers, counted(all, "prompt")));
  for (const Target& target : judgement.request.targets)
    if (const std::string lenient = lenient_text(target); !lenient.empty()) sentences.push_back(lenient);
  const auto units = static_cast<std::int64_t>(judgement.set.num_clusters());
  for (std::size_t t = 0; t < judgement.request.targets.size(); ++t)
    if (const std::int64_t counted = judgement.single.about().evidence.targets[t].prompts; counted < units) {
      const Target& target = judgement.request.targets[t];
      sentences.push_back(fmt::format(
          "{} of {} do not count for {}: {}", units - counted, counted_units(judgement.set, units), target.text,
          target.of_answers()                           ? "dense attention answers them wrong, or they have no answer"
          : target.quantity.metric.starts_with("span_") ? "they have no span, or no head that attends to it"
                                                        : "it is not defined for any of their cells"));
    }
  return sentences;
}

}  // namespace attest
