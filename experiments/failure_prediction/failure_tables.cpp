// Tables of AUC and of thresholds.
#include "experiments/failure_prediction/failure_tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "analysis/outcomes/left_out.h"
#include "dumps/base/parallel_for.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

constexpr Auc kNoAuc{.value = kNaN, .low = kNaN, .high = kNaN};

const Predictor& predictor_of(const OutcomeStudy& study, const AucRow& row) {
  return study.all.predictors[row.predictor];
}

/// What one threshold of a predictor catches in a scope.
struct ThresholdRow {
  const AucRow* of = nullptr;
  std::array<double, kCatch.size()> thresholds = {};  ///< values of the predictor
  std::array<AlarmCounts, kCatch.size()> alarms = {};
};

ThresholdRow threshold_row(const OutcomeStudy& study, const AucRow& row) {
  ThresholdRow result{.of = &row};
  const std::vector<ScoredOutcome> outcomes = scored(study.all, row.predictor, row.scope->runs);
  for (std::size_t g = 0; g < kCatch.size(); ++g) {
    const double threshold = row.counts.enough() ? threshold_that_catches(outcomes, kCatch[g]) : kNaN;
    result.thresholds[g] = predictor_of(study, row).value(threshold);
    if (!std::isnan(threshold)) result.alarms[g] = alarms_at(outcomes, threshold);
  }
  return result;
}

/// The columns that say what a row is of.
template <class Row>
std::vector<ColumnOf<Row>> columns_of_scope(const OutcomeStudy& study, const AucRow& (*of)(const Row&)) {
  return {
      {{.name = "spans", .kind = kText, .heading = "spans"},
       [&study, of](const Row& r) { return predictor_of(study, of(r)).needs_spans ? "with" : "without"; }},
      {{.name = "predictor", .kind = kText}, [&study, of](const Row& r) { return predictor_of(study, of(r)).name; }},
      {{.name = "failure_if", .kind = kText, .heading = "failure if"},
       [&study, of](const Row& r) { return predictor_of(study, of(r)).high_fails ? "high" : "low"; }},
      {{.name = "scope", .kind = kText, .heading = "runs of"},
       [of](const Row& r) { return display_name(of(r).scope->name); }},
      {{.name = "runs", .decimals = 0},
       [of](const Row& r) { return static_cast<double>(of(r).counts.failures + of(r).counts.successes); }},
      {{.name = "failures", .decimals = 0}, [of](const Row& r) { return static_cast<double>(of(r).counts.failures); }},
      {{.name = "failed_prompts", .heading = "of prompts", .decimals = 0},
       [of](const Row& r) { return static_cast<double>(of(r).counts.failed_prompts); }}};
}

}  // namespace

std::vector<AucRow> auc_rows(const OutcomeStudy& study, const std::vector<OutcomeScope>& scopes, int threads) {
  std::vector<AucRow> rows;
  for (const OutcomeScope& scope : scopes)
    for (std::size_t p = 0; p < study.all.predictors.size(); ++p) rows.push_back({p, &scope, {}, kNoAuc, kNoAuc});
  parallel_for(threads, rows.size(), [&](int, std::size_t i) {
    AucRow& row = rows[i];
    const std::vector<ScoredOutcome> outcomes = scored(study.all, row.predictor, row.scope->runs, true);
    row.counts = count_outcomes(outcomes);
    if (!row.counts.enough()) return;
    row.same_label = auc_interval(outcomes);
    row.pooled = auc_interval(scored(study.all, row.predictor, row.scope->runs));
  });
  std::vector<double> pooled(study.all.predictors.size(), kNaN);
  for (std::size_t p = 0; p < pooled.size(); ++p) pooled[p] = rows[p].pooled.value;
  const std::vector<std::size_t> order = ordered_predictors(study.all, pooled);
  std::vector<AucRow> sorted;
  for (std::size_t scope = 0; scope < scopes.size(); ++scope)
    for (const std::size_t p : order) sorted.push_back(rows[scope * pooled.size() + p]);
  // A metric that the scope's selectors do not have.
  std::erase_if(sorted, [](const AucRow& row) { return row.counts.failures + row.counts.successes == 0; });
  return sorted;
}

NamedTable auc_table(const OutcomeStudy& study, const std::vector<AucRow>& rows) {
  using R = AucRow;
  std::vector<ColumnOf<R>> columns = columns_of_scope<R>(study, [](const R& r) -> const AucRow& { return r; });
  columns.push_back({{.name = "auc", .heading = "AUC"}, [](const R& r) { return r.pooled.value; }});
  columns.push_back({{.name = "auc_low", .heading = "from"}, [](const R& r) { return r.pooled.low; }});
  columns.push_back({{.name = "auc_high", .heading = "to"}, [](const R& r) { return r.pooled.high; }});
  columns.push_back(
      {{.name = "auc_same_selector", .heading = "AUC, same selector"}, [](const R& r) { return r.same_label.value; }});
  columns.push_back(
      {{.name = "auc_same_selector_low", .heading = "from"}, [](const R& r) { return r.same_label.low; }});
  columns.push_back(
      {{.name = "auc_same_selector_high", .heading = "to"}, [](const R& r) { return r.same_label.high; }});
  return {
      "failure_prediction_auc",
      fmt::format("How well each predictor tells failed runs from right ones; {}. {} {} {} AUC: the chance that of a "
                  "failed and a right run the failed one looks worse; 0.5 is a coin. Same selector: pairs of runs "
                  "of one label alone. Combinations are logistic regressions, learnt from the prompts of the other "
                  "folds. An interval from 1 to 1 means that no failure here contradicts, not that none can.",
                  study.source, run_words(), interval_words(), fewest_words()),
      make_table(rows, columns)};
}

NamedTable thresholds_table(const OutcomeStudy& study, const std::vector<AucRow>& rows) {
  using R = ThresholdRow;
  std::vector<R> thresholds;
  for (const AucRow& row : rows) thresholds.push_back(threshold_row(study, row));
  std::vector<ColumnOf<R>> columns = columns_of_scope<R>(study, [](const R& r) -> const AucRow& { return *r.of; });
  for (std::size_t g = 0; g < kCatch.size(); ++g) {
    const int percent = static_cast<int>(std::lround(100 * kCatch[g]));
    columns.push_back({{.name = fmt::format("threshold_{}", percent),
                        .heading = fmt::format("threshold for {} %", percent),
                        .decimals = 4},
                       [g](const R& r) { return r.thresholds[g]; }});
    columns.push_back({{.name = fmt::format("caught_{}", percent), .heading = "caught"},
                       [g](const R& r) { return r.alarms[g].caught_share(); }});
    columns.push_back({{.name = fmt::format("false_alarms_{}", percent), .heading = "false alarms"},
                       [g](const R& r) { return r.alarms[g].false_alarm_share(); }});
  }
  return {
      "failure_prediction_thresholds",
      fmt::format("Thresholds that would have caught 95 % and 99 % of these failures, and the share of the right "
                  "runs that they would have taken for failures; {}. {} {} The threshold itself gives an alarm. It is "
                  "fitted to these runs: failure_prediction_left_out says what thresholds do elsewhere.",
                  study.source, run_words(), fewest_words()),
      make_table(thresholds, columns)};
}

std::string share_text(double share) { return std::isnan(share) ? "-" : fmt::format("{:.1f} %", 100 * share); }

std::string auc_text(const Auc& auc) { return fmt::format("{:.3f} ({:.3f} to {:.3f})", auc.value, auc.low, auc.high); }

}  // namespace attest
