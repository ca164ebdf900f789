// The verdict as JSON and csv.
#include "experiments/validation/verdict_files.h"

#include <fmt/core.h>

#include <cmath>
#include <sstream>

#include "dumps/base/json.h"
#include "dumps/base/json_numbers.h"
#include "experiments/validation/recommendation.h"
#include "experiments/validation/verdict_sentences.h"
#include "experiments/validation/verdict_text.h"
#include "plots/table.h"

namespace attest {
namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json evidence_json(const Judgement& judgement, const Evidence& evidence) {
  Json json = {{"n", evidence.prompts}, {"k", evidence.violations}};
  const GuaranteeKind kind = judgement.request.guarantee.kind;
  json["share"] = evidence.prompts == 0
                      ? Json()
                      : Json(static_cast<double>(evidence.violations) / static_cast<double>(evidence.prompts));
  if (kind != GuaranteeKind::observed) {
    json["share_low"] = evidence.share.low;
    json["share_high"] = evidence.share.high;
    json["p_value"] = evidence.p_value;
  }
  json["verdict"] = name_of(evidence.certainty);
  Json targets = Json::array();
  for (std::size_t t = 0; t < evidence.targets.size(); ++t) {
    const TargetEvidence& target = evidence.targets[t];
    Json one = {{"target", judgement.request.targets[t].text},
                {"n", target.prompts},
                {"k", target.violations},
                {"mean_deficit", finite_or_null(target.mean_deficit)},
                {"passes_at", or_null(target.passes_at)}};
    if (kind != GuaranteeKind::observed) one["p_value"] = target.p_value;
    if (kind == GuaranteeKind::mean) {
      one["beyond_clip"] = target.beyond_clip;
      one["beyond_clip_at_most"] = target.beyond_clip_at_most;
    }
    targets.push_back(std::move(one));
  }
  json["targets"] = std::move(targets);
  return json;
}

Json groups_json(const std::vector<PromptGroup>& groups) {
  Json list = Json::array();
  for (const PromptGroup& group : groups)
    list.push_back({{"name", group.name}, {"n", group.prompts}, {"k", group.violations}});
  return list;
}

Json offenders_json(const Judgement& judgement) {
  Json cells = Json::array();
  for (const Offender& o : judgement.offenders().worst) {
    const Prompt& prompt = judgement.set.prompts[o.prompt];
    Json cell = {{"prompt", prompt.name},
                 {"task", prompt.task},
                 {"tokens", prompt.num_tokens},
                 {"layer", o.layer},
                 {"head", or_null(o.head)},
                 {"query_position", o.query_position},
                 {"target", judgement.request.targets[o.target].text},
                 {"value", finite_or_null(o.value)},
                 {"setting", setting_json(judgement, o.setting)},
                 {"enough", o.enough ? setting_json(judgement, *o.enough) : Json()}};
    if (o.of_row) cell["row_value"] = *o.of_row;
    cells.push_back(std::move(cell));
  }
  return {{"count", judgement.offenders().count}, {"cells", std::move(cells)}};
}

Json prompt_names(const Judgement& judgement, const std::vector<std::size_t>& prompts) {
  Json names = Json::array();
  for (const std::size_t p : prompts) names.push_back(judgement.set.prompts[p].name);
  return names;
}

Json units_json(const Judgement& judgement) {
  const UnitValidation& units = *judgement.units;
  Json members = Json::array();
  for (const JudgedAssignment& member : units.members) {
    Json one = units.allocation ? Json::object() : Json{{"slack", member.slack}};
    one.update(evidence_json(judgement, member.evidence));
    one["keep_ratio"] = finite_or_null(member.keep);
    one["io_ratio"] = finite_or_null(member.io);
    members.push_back(std::move(one));
  }
  Json json = {{"per", name_of(units.kind)},
               {"choosing", units.choosing.size()},
               {"certifying", units.certifying.size()},
               {"choosing_prompts", prompt_names(judgement, units.choosing)},
               {"members", std::move(members)},
               {"certified", units.certainty == Certainty::certified ? or_null(units.passed) : Json()}};
  Json settings = Json::array();
  const Assignment& about = units.about().assignment;
  for (std::size_t u = 0; u < units.units.size(); ++u) {
    Json one = {{"layer", judgement.set.layers[units.units[u].row]}};
    if (units.kind == UnitKind::kv_head) one["kv_head"] = units.units[u].kv_head;
    one["setting"] = setting_json(judgement, about[u]);
    settings.push_back(std::move(one));
  }
  json["settings"] = std::move(settings);
  if (units.allocation) {
    json["io_budget"] = {{"budget", *judgement.unit_request.io_budget},
                         {"io", units.allocation->io},
                         {"loss", units.allocation->loss},
                         {"no_loss_below", units.allocation->relaxed_loss},
                         {"single", units.single_in_budget ? setting_json(judgement, *units.single_in_budget) : Json()},
                         {"single_loss", units.single_in_budget ? Json(units.single_loss) : Json()}};
  }
  return json;
}

}  // namespace

Json verdict_json(const Judgement& judgement) {
  const Validation& single = judgement.single;
  Json settings = Json::array();
  for (const JudgedSetting& judged : single.settings) {
    Json one = {{"setting", setting_json(judgement, judged.setting)}};
    one.update(evidence_json(judgement, judged.evidence));
    one["keep_ratio"] = finite_or_null(judged.keep);
    one["io_ratio"] = finite_or_null(judged.io);
    settings.push_back(std::move(one));
  }
  Json json = {
      {"verdict", name_of(judgement.certainty())},
      {"text", verdict_text(judgement)},
      {"model", judgement.set.model},
      {"engine", engines_text(judgement.set)},
      {"selector", selector_json(judgement.set)},
      {"setting", setting_kind_name(judgement.set)},
      {"certified",
       single.certainty == Certainty::certified ? setting_json(judgement, single.about().setting) : Json()},
      {"shown", single.certainty == Certainty::shown ? setting_json(judgement, single.about().setting) : Json()},
      {"claim", guarantee_json(judgement)},
      {"stopped_at", single.stopped ? setting_json(judgement, single.settings[*single.stopped].setting) : Json()},
      {"prompts_to_decide", judgement.stopped() ? or_null(judgement.prompts_to_decide()) : Json()},
      {"settings", std::move(settings)},
      {"by_task", groups_json(single.by_task)},
      {"by_length", groups_json(single.by_length)},
      {"notes", uncounted_prompts(judgement)},
      {"offenders", offenders_json(judgement)},
      {"wrong_answers", prompt_names(judgement, single.wrong_answers)},
      {"results", results_json(judgement)}};
  if (judgement.units) json["units"] = units_json(judgement);
  return json;
}

std::string verdict_json_text(const Judgement& judgement) { return verdict_json(judgement).dump(2) + "\n"; }

std::string verdicts_json_text(const std::vector<Judgement>& judgements, const std::string& together) {
  if (judgements.size() == 1) return verdict_json_text(judgements.front());
  Json verdicts = Json::array();
  for (const Judgement& judgement : judgements) verdicts.push_back(verdict_json(judgement));
  const Json all = {{"verdicts", std::move(verdicts)}, {"together", together}};
  return all.dump(2) + "\n";
}

std::string offenders_csv(const Judgement& judgement) {
  using Kind = Column::Kind;
  const auto prompt = [&](const Offender& o) -> const Prompt& { return judgement.set.prompts[o.prompt]; };
  const Table table = make_table<Offender>(
      judgement.offenders().worst,
      {{{"prompt", Kind::text}, [&](const Offender& o) { return prompt(o).name; }},
       {{"task", Kind::text}, [&](const Offender& o) { return prompt(o).task; }},
       {{"tokens"}, [&](const Offender& o) { return static_cast<double>(prompt(o).num_tokens); }},
       {{"layer"}, [](const Offender& o) { return static_cast<double>(o.layer); }},
       {{"head", Kind::text}, [](const Offender& o) { return o.head ? std::to_string(*o.head) : std::string(); }},
       {{"query_position"}, [](const Offender& o) { return static_cast<double>(o.query_position); }},
       {{"target", Kind::text}, [&](const Offender& o) { return judgement.request.targets[o.target].text; }},
       {{"value"}, [](const Offender& o) { return o.value; }},
       {{"setting", Kind::text}, [&](const Offender& o) { return judgement.label(o.setting); }},
       {{"enough", Kind::text},
        [&](const Offender& o) { return o.enough ? judgement.label(*o.enough) : std::string(); }}});
  std::ostringstream text;
  write_csv(table, text);
  return text.str();
}

}  // namespace attest
