// Table of thresholds and combinations learnt on other selectors, and on other models.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "analysis/outcomes/combination.h"
#include "analysis/outcomes/left_out.h"
#include "dumps/base/parallel_for.h"
#include "experiments/failure_prediction/failure_tables.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

struct Row {
  LeftOutKind kind = LeftOutKind::selector;
  std::size_t predictor = 0;
  LeftOutPart part;

  bool together() const { return part.part.empty(); }
};

const char* name_of(LeftOutKind kind) {
  constexpr const char* kNames[] = {"selector", "model", "selector and model"};
  return kNames[static_cast<std::size_t>(kind)];
}

Table table_of(const OutcomeStudy& study, const std::vector<Row>& rows) {
  std::vector<ColumnOf<Row>> columns = {
      {{.name = "left_out", .kind = kText, .heading = "left out"}, [](const Row& r) { return name_of(r.kind); }},
      {{.name = "part", .kind = kText},
       [](const Row& r) { return r.together() ? std::string("all in turn") : display_name(r.part.part); }},
      {{.name = "spans", .kind = kText},
       [&](const Row& r) { return study.all.predictors[r.predictor].needs_spans ? "with" : "without"; }},
      {{.name = "predictor", .kind = kText}, [&](const Row& r) { return study.all.predictors[r.predictor].name; }},
      {{.name = "runs", .decimals = 0},
       [](const Row& r) { return static_cast<double>(r.part.counts.failures + r.part.counts.successes); }},
      {{.name = "failures", .decimals = 0}, [](const Row& r) { return static_cast<double>(r.part.counts.failures); }},
      {{.name = "auc", .heading = "AUC"}, [](const Row& r) { return r.part.auc.value; }},
      {{.name = "auc_low", .heading = "from"}, [](const Row& r) { return r.part.auc.low; }},
      {{.name = "auc_high", .heading = "to"}, [](const Row& r) { return r.part.auc.high; }}};
  for (std::size_t g = 0; g < kCatch.size(); ++g) {
    const int percent = static_cast<int>(std::lround(100 * kCatch[g]));
    columns.push_back(
        {{.name = fmt::format("threshold_{}", percent),
          .heading = fmt::format("threshold of the others for {} %", percent),
          .decimals = 4},
         [&study, g](const Row& r) { return study.all.predictors[r.predictor].value(r.part.thresholds[g]); }});
    columns.push_back({{.name = fmt::format("caught_{}", percent), .heading = "caught"},
                       [g](const Row& r) { return r.part.alarms[g].caught_share(); }});
    columns.push_back({{.name = fmt::format("false_alarms_{}", percent), .heading = "false alarms"},
                       [g](const Row& r) { return r.part.alarms[g].false_alarm_share(); }});
  }
  return make_table(rows, columns);
}

/// Says what a few predictors of the fixed list reach when each part in turn is left out.
void add_findings(const OutcomeStudy& study, LeftOutKind kind, const std::vector<Row>& rows,
                  std::vector<Finding>& findings) {
  for (const std::size_t p : told_predictors(study.all)) {
    const auto row =
        std::ranges::find_if(rows, [&](const Row& r) { return r.kind == kind && r.predictor == p && r.together(); });
    if (row == rows.end() || std::isnan(row->part.auc.value)) continue;
    findings.push_back(
        {.text = fmt::format(
             "{}, learnt without the prompts and the {} that it is judged by: AUC {}; the threshold for 95 % of the "
             "failures catches {}, with {} false alarms, that for 99 % {} with {}.",
             study.all.predictors[p].name, name_of(kind), auc_text(row->part.auc),
             share_text(row->part.alarms[0].caught_share()), share_text(row->part.alarms[0].false_alarm_share()),
             share_text(row->part.alarms[1].caught_share()), share_text(row->part.alarms[1].false_alarm_share())),
         .number = fmt::format("AUC {:.3f}", row->part.auc.value)});
  }
}

}  // namespace

void add_left_out(const OutcomeStudy& study, const std::vector<std::size_t>& order, int threads,
                  ExperimentResult& result) {
  std::vector<Row> rows;
  for (const LeftOutKind kind : {LeftOutKind::selector, LeftOutKind::model, LeftOutKind::both}) {
    std::vector<std::vector<LeftOutPart>> parts(order.size());
    parallel_for(threads, order.size(), [&](int, std::size_t i) { parts[i] = leave_out(study.all, order[i], kind); });
    if (parts.empty() || parts.front().empty()) {
      if (kind == LeftOutKind::both) continue;  // said of the one that is alone
      result.findings.push_back(
          {.text =
               fmt::format("There is one {0}: what a threshold does for another {0} is not known.", name_of(kind))});
      continue;
    }
    for (std::size_t i = 0; i < order.size(); ++i)
      for (LeftOutPart& part : parts[i]) rows.push_back({kind, order[i], std::move(part)});
    add_findings(study, kind, rows, result.findings);
  }
  std::erase_if(rows, [](const Row& r) { return r.part.counts.failures + r.part.counts.successes == 0; });
  if (rows.empty()) return;
  result.tables.push_back(
      {"failure_prediction_left_out",
       fmt::format(
           "Thresholds and combinations learnt without a selector (all its labels), without a model, or without "
           "both, and judged by its runs on prompts that taught neither: prompts are left out in {} folds, and "
           "a threshold is the median of theirs; {}. {} {} {} All in turn: every part judged by what the others "
           "taught. A single metric is the same everywhere, and only its threshold is learnt.",
           kFolds, study.source, run_words(), interval_words(), fewest_words()),
       table_of(study, rows)});
}

}  // namespace attest
