// Tables and findings of a verdict.
#include "experiments/validation/verdict_result.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "analysis/statistics/model_cells.h"
#include "dumps/base/join.h"
#include "experiments/study_view/words.h"
#include "experiments/validation/evidence_plot.h"
#include "experiments/validation/setting_figure.h"
#include "experiments/validation/unit_figure.h"
#include "experiments/validation/verdict_sentences.h"
#include "experiments/validation/verdict_text.h"

namespace attest {
namespace {

using Kind = Column::Kind;

double share(std::int64_t violations, std::int64_t prompts) {
  return static_cast<double>(violations) / static_cast<double>(prompts);
}

Severity severity_of(Certainty certainty) {
  switch (certainty) {
    case Certainty::certified:
      return Severity::good;
    case Certainty::refuted:
      return Severity::serious;
    default:
      break;
  }
  return Severity::warning;
}

/// The map has the worst of all samples and queries, so that the cell can be seen in it.
MapPlace place_of(const Judgement& judgement, const Offender& offender) {
  const auto& candidates = judgement.set.candidates;
  const MetricStatistic& quantity = judgement.request.targets[offender.target].quantity;
  const std::string metric(stored_part(quantity.stored_metric()));
  if (!candidates.empty()) {
    const auto& [text, selector, setting] = candidates[offender.setting];
    return {.metric = metric,
            .selector = selector.label,
            .setting = selector.setting_labels[setting],
            .statistic = "worst",
            .layer = offender.layer,
            .head = offender.head};
  }
  return {.metric = metric,
          .selector = judgement.set.selector.label,
          .setting = judgement.label(offender.setting),
          .statistic = "worst",
          .layer = offender.layer,
          .head = offender.head};
}

std::vector<Finding> findings_of(const Judgement& judgement) {
  const bool certified = judgement.certainty() == Certainty::certified;
  const Validation& single = judgement.single;
  const bool has_number = certified && !judgement.units && judgement.set.has_choice();
  std::vector<Finding> findings = {
      {.text = fmt::format("{}: {}{}. {}.", capitalized(verdict_heading(judgement)),
                           passes(judgement.certainty()) ? "" : "not shown is that ", guarantee_sentence(judgement),
                           capitalized(evidence_text(judgement, judgement.evidence()))),
       .severity = severity_of(judgement.certainty()),
       .number =
           has_number ? judgement.setting_text(single.about().setting) : std::string(name_of(judgement.certainty()))}};
  for (const VerdictLine& line : verdict_lines(judgement))
    if (line.name != "guarantee" && line.name != "shown" && line.name != "not shown" &&
        line.name != "evidence")  // told above
      findings.push_back({.text = fmt::format("{}: {}.", capitalized(line.name), line.text)});
  const Offenders& offenders = judgement.offenders();
  const std::size_t shown = std::min(offenders.worst.size(), kShownOffenders);
  for (std::size_t i = 0; i < shown; ++i)
    findings.push_back(
        {.text = fmt::format("{}.", capitalized(offender_text(judgement, offenders.worst[i]))),
         .number = fmt::format("{} {:.4g}", judgement.request.targets[offenders.worst[i].target].quantity.quantity(),
                               offenders.worst[i].value),
         .place = place_of(judgement, offenders.worst[i])});
  return findings;
}

}  // namespace

NamedTable settings_table(const Judgement& judgement) {
  using Row = JudgedSetting;
  const Guarantee& guarantee = judgement.request.guarantee;
  std::vector<ColumnOf<Row>> columns = {
      {{"setting", Kind::text}, [&](const Row& r) { return display_name(judgement.label(r.setting)); }},
      {{"n", Kind::number, "prompts", 0}, [](const Row& r) { return static_cast<double>(r.evidence.prompts); }},
      {{"k", Kind::number, "violating", 0}, [](const Row& r) { return static_cast<double>(r.evidence.violations); }},
      {{"share", Kind::number, "share"},
       [](const Row& r) { return share(r.evidence.violations, r.evidence.prompts); }}};
  if (guarantee.kind != GuaranteeKind::observed) {
    columns.push_back({{"share_low", Kind::number, "from"}, [](const Row& r) { return r.evidence.share.low; }});
    columns.push_back({{"share_high", Kind::number, "to"}, [](const Row& r) { return r.evidence.share.high; }});
  }
  if (guarantee.kind == GuaranteeKind::mean)
    for (std::size_t t = 0; t < judgement.request.targets.size(); ++t)
      columns.push_back(
          {{fmt::format("mean_deficit{}", judgement.request.targets.size() == 1 ? "" : fmt::format("_{}", t + 1)),
            Kind::number, fmt::format("mean deficit, {}", judgement.request.targets[t].text), 6},
           [t](const Row& r) { return r.evidence.targets[t].mean_deficit; }});
  if (guarantee.kind != GuaranteeKind::observed)
    columns.push_back({{"p_value", Kind::number, "p", 4}, [](const Row& r) { return r.evidence.p_value; }});
  columns.push_back({{"verdict", Kind::text}, [](const Row& r) { return std::string(name_of(r.evidence.certainty)); }});
  columns.push_back({{"keep_ratio", Kind::number, "tokens kept"}, [](const Row& r) { return r.keep; }});
  columns.push_back({{"io_ratio", Kind::number, "bytes read"}, [](const Row& r) { return r.io; }});
  return {"settings",
          fmt::format("Each setting of {} over {}, the safest first; those after the first that does not pass are not "
                      "tested, whatever their own p-value. {}.",
                      display_name(judgement.set.selector.label), counted(std::ssize(judgement.set.prompts), "prompt"),
                      source_text(judgement)),
          make_table<Row>(judgement.single.settings, columns)};
}

NamedTable groups_table(const Judgement& judgement) {
  struct Row {
    const char* by;
    const PromptGroup* group;
  };
  const Validation& single = judgement.single;
  std::vector<Row> rows;
  for (const PromptGroup& group : single.by_task) rows.push_back({"task", &group});
  for (const PromptGroup& group : single.by_length) rows.push_back({"length", &group});
  return {
      "groups",
      fmt::format("Violating prompts by task and by length (tokens) at {}; as observed, without a guarantee for any "
                  "group. {}.",
                  judgement.setting_text(single.about().setting), source_text(judgement)),
      make_table<Row>(
          rows,
          {{{"by", Kind::text}, [](const Row& r) { return std::string(r.by); }},
           {{"name", Kind::text, "group"}, [](const Row& r) { return display_name(task_title(r.group->name)); }},
           {{"n", Kind::number, "prompts", 0}, [](const Row& r) { return static_cast<double>(r.group->prompts); }},
           {{"k", Kind::number, "violating", 0}, [](const Row& r) { return static_cast<double>(r.group->violations); }},
           {{"share"}, [](const Row& r) { return share(r.group->violations, r.group->prompts); }}})};
}

ExperimentMade verdict_result(const Judgement& judgement) {
  ExperimentMade made{
      .experiment = kVerdictExperiment,
      .paper = fmt::format("{} on {}", display_name(judgement.set.selector.label), display_name(judgement.set.model)),
      .study = judgement.set.model,
      .result = {}};
  if (std::optional<Figure> figure = setting_figure(judgement)) made.result.figures.push_back(*std::move(figure));
  if (judgement.units) made.result.figures.push_back(unit_figure(judgement));
  made.result.tables = {settings_table(judgement), groups_table(judgement)};
  made.result.findings = findings_of(judgement);
  return made;
}

}  // namespace attest
