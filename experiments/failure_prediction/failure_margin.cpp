// failure_prediction_margin: the predicted margin as a predictor, with a threshold that nothing was learnt for.
#include <fmt/core.h>

#include <limits>

#include "analysis/outcomes/left_out.h"
#include "experiments/failure_prediction/failure_tables.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

struct MarginRow {
  const OutcomeScope* scope = nullptr;
  OutcomeCounts counts;
  AlarmCounts alarms;
};

constexpr const char* kPredictor = "predicted_margin.min";
/// The least score above 0; scores are the negatives of margins.
constexpr double kBelowZero = std::numeric_limits<double>::denorm_min();

}  // namespace

void add_margins(const OutcomeStudy& study, const std::vector<OutcomeScope>& scopes, ExperimentResult& result) {
  const std::optional<std::size_t> predictor = study.all.find(kPredictor);
  if (!predictor) return;
  std::vector<MarginRow> rows;
  for (const OutcomeScope& scope : scopes) {
    const std::vector<ScoredOutcome> outcomes = scored(study.all, *predictor, scope.runs);
    if (!outcomes.empty()) rows.push_back({&scope, count_outcomes(outcomes), alarms_at(outcomes, kBelowZero)});
  }
  if (rows.empty()) return;
  const MarginRow& all = rows.front();
  if (all.counts.enough())
    result.findings.push_back(
        {.text = fmt::format("{} below 0, a threshold that is not learnt, tells {} of {} failures, and takes {} of {} "
                             "right runs for failures.",
                             kPredictor, share_text(all.alarms.caught_share()), all.counts.failures,
                             share_text(all.alarms.false_alarm_share()), all.counts.successes),
         .number = fmt::format("{} caught", share_text(all.alarms.caught_share()))});
  const auto count = [](const char* name) { return Column{.name = name, .decimals = 0}; };
  result.tables.push_back(
      {"failure_prediction_margin",
       fmt::format("Failures whose {} is below 0, and right runs whose is; {}. {} Nothing is learnt.", kPredictor,
                   study.source, run_words()),
       make_table<MarginRow>(
           rows, {{{.name = "scope", .kind = kText, .heading = "runs of"},
                   [](const MarginRow& r) { return display_name(r.scope->name); }},
                  {count("failures"), [](const MarginRow& r) { return static_cast<double>(r.counts.failures); }},
                  {count("right"), [](const MarginRow& r) { return static_cast<double>(r.counts.successes); }},
                  {{.name = "caught"}, [](const MarginRow& r) { return r.alarms.caught_share(); }},
                  {{.name = "false_alarms", .heading = "false alarms"},
                   [](const MarginRow& r) { return r.alarms.false_alarm_share(); }}})});
}

}  // namespace attest
