// Makes tables, figures and findings from joined results and answers.
#include "experiments/failure_prediction/failure_prediction.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "experiments/failure_prediction/failure_figures.h"
#include "experiments/failure_prediction/failure_tables.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

constexpr const char* kTasksCommand = "attest tasks";

bool is_requested(const std::vector<TasksFile>& tasks, const std::vector<std::string>& only) {
  return only.empty() ? !tasks.empty() : std::ranges::count(only, kFailurePrediction.name) > 0;
}

/// Says what was joined, and what was not.
void add_join_findings(const OutcomeStudy& study, const OutcomeCounts& counts, std::vector<Finding>& findings) {
  const JoinCounts& join = study.joined;
  std::vector<std::string> scores;
  for (std::size_t kind = 0; kind < kScoreNames.size(); ++kind)
    if (join.by_score[kind] > 0) scores.push_back(fmt::format("{} by {}", join.by_score[kind], kScoreNames[kind]));
  findings.push_back({.text = fmt::format("{} of {} under {}, {}: {} failed, {} right (scored {}).",
                                          counted(counts.failures + counts.successes, "run"),
                                          counted(static_cast<std::int64_t>(study.all.prompts.size()), "prompt"),
                                          counted(static_cast<std::int64_t>(study.all.labels.size()), "label"),
                                          counted(static_cast<std::int64_t>(study.all.models.size()), "model"),
                                          counts.failures, counts.successes, attest::join(scores, ", ")),
                      .number = fmt::format("{} failed", counts.failures)});
  std::vector<std::string> left;
  const auto add = [&](std::int64_t count, const std::string& why) {
    if (count > 0) left.push_back(fmt::format("{} {}", count, why));
  };
  add(join.dense_wrong,
      fmt::format("of {} that dense attention answers wrong", counted(join.dense_wrong_prompts, "prompt")));
  add(join.other_prompt, "of prompts that the results lack");
  add(join.other_setting, "of labels or settings that the results lack");
  add(join.other_options, "of another selector or other options under the same label");
  add(join.left_out, "of prompts of which the study left out layers");
  add(join.not_scored, "that have no kind of score in common with the dense answer");
  if (!left.empty()) {
    const bool unjoined = join.other_prompt + join.other_setting + join.other_options > 0;
    findings.push_back({.text = fmt::format("Left out of {} answers: {}.",
                                            join.joined + join.dense_wrong + join.other_prompt + join.other_setting +
                                                join.other_options + join.left_out + join.not_scored,
                                            attest::join(left, ", ")),
                        .severity = unjoined ? Severity::warning : Severity::note});
  }
  if (join.not_answered > 0)
    findings.push_back({.text = fmt::format("{} in the results without an answer (prompts by selector and setting).",
                                            counted(join.not_answered, "run"))});
}

/// Says what the predictors of the fixed list reach over all runs.
void add_auc_findings(const OutcomeStudy& study, const std::vector<AucRow>& rows, std::vector<Finding>& findings) {
  for (const std::size_t p : shown_predictors(study.all)) {
    const auto row =
        std::ranges::find_if(rows, [&](const AucRow& r) { return r.predictor == p && r.scope->name == "all"; });
    if (row == rows.end()) continue;
    const std::string& name = study.all.predictors[p].name;
    const std::int64_t runs = row->counts.failures + row->counts.successes;
    if (std::isnan(row->pooled.value)) {
      findings.push_back({.text = fmt::format("{} is defined for {}, of which {} of {} failed: too few for a number.",
                                              name, counted(runs, "run"), row->counts.failures,
                                              counted(row->counts.failed_prompts, "prompt"))});
      continue;
    }
    const bool everywhere = runs == static_cast<std::int64_t>(study.all.runs.size());
    findings.push_back(
        {.text = fmt::format("{} tells failed runs from right ones with an AUC of {}; among runs of the "
                             "same label {}{}.",
                             name, auc_text(row->pooled), auc_text(row->same_label),
                             everywhere ? "" : fmt::format(" (it is defined for {})", counted(runs, "run"))),
         .number = fmt::format("AUC {:.3f}", row->pooled.value)});
  }
}

void add_scarce_scopes(const OutcomeStudy& study, const std::vector<OutcomeScope>& scopes,
                       std::vector<Finding>& findings) {
  std::vector<std::string> scarce;
  for (const OutcomeScope& scope : scopes)
    if (const OutcomeCounts counts = count_outcomes(study.all, scope.runs); !counts.enough())
      scarce.push_back(
          fmt::format("{} ({} failed, {} right)", display_name(scope.name), counts.failures, counts.successes));
  if (!scarce.empty())
    findings.push_back({.text = fmt::format("Too few failures or right runs for numbers of their own: {}.",
                                            attest::join(scarce, ", "))});
}

ExperimentResult make(const OutcomeStudy& study, int threads) {
  ExperimentResult result;
  const std::vector<OutcomeScope> scopes = scopes_of(study.all);
  const OutcomeCounts counts = count_outcomes(study.all, scopes.front().runs);
  add_join_findings(study, counts, result.findings);
  if (!counts.enough()) {
    result.findings.push_back(
        {.text = fmt::format("{} of {} and {} of {} are too few to judge a predictor, which takes at least {} each, of "
                             "at least {} prompts: there is no AUC and no threshold.",
                             counted(counts.failures, "failure"), counted(counts.failed_prompts, "prompt"),
                             counted(counts.successes, "right run"), counted(counts.right_prompts, "prompt"),
                             kFewestRuns, kFewestPrompts),
         .severity = Severity::warning});
    add_targets(study, result);
    return result;
  }
  const std::vector<AucRow> rows = auc_rows(study, scopes, threads);
  add_auc_findings(study, rows, result.findings);
  add_scarce_scopes(study, scopes, result.findings);
  for (Figure figure : {roc_figure(study), calibration_figure(study)})
    if (!figure.panels.empty()) result.figures.push_back(std::move(figure));
  result.tables.push_back(auc_table(study, rows));
  result.tables.push_back(thresholds_table(study, rows));
  add_margins(study, scopes, result);
  std::vector<std::size_t> order;
  for (const AucRow& row : rows)
    if (row.scope == scopes.data()) order.push_back(row.predictor);
  add_left_out(study, order, threads, result);
  add_targets(study, result);
  return result;
}

}  // namespace

std::vector<TasksFile> read_tasks_files(const std::vector<std::string>& paths) {
  std::vector<TasksFile> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    for (const TasksFile& other : files)
      if (std::filesystem::equivalent(other.path, path, ignored))
        throw UsageError(fmt::format("{} is named twice", path));
    files.push_back(read_tasks_file(path));
  }
  return files;
}

void check_failure_prediction(ResultsFiles results, const std::vector<TasksFile>& tasks,
                              const std::vector<std::string>& only) {
  if (is_requested(tasks, only) && !tasks.empty() && !results.empty()) join_answers(results, tasks);
}

void add_failure_prediction(ResultsFiles results, const std::vector<TasksFile>& tasks, const FigureRequest& request,
                            FigureReport& report) {
  if (!is_requested(tasks, request.only)) return;
  if (tasks.empty() || results.empty()) {
    report.skipped.push_back(
        {.experiment = kFailurePrediction.name,
         .reason = tasks.empty() ? "needs a file of attest tasks" : "needs results of attest run for the same prompts",
         .command = tasks.empty() ? kTasksCommand : kRunCommand});
    return;
  }
  const OutcomeStudy study = outcome_study(results, tasks, request.options.threads);
  std::variant<ExperimentResult, Unsupported> outcome;
  if (study.all.runs.empty())
    outcome = Unsupported{fmt::format(
        "of {} answers in common with the results none counts: {} are of prompts that dense attention answers wrong, "
        "{} of prompts of which the study left out layers, {} have no kind of score in common with the dense answer",
        study.joined.dense_wrong + study.joined.left_out + study.joined.not_scored, study.joined.dense_wrong,
        study.joined.left_out, study.joined.not_scored)};
  else
    outcome = make(study, request.options.threads);
  std::vector<StudyOutcome> outcomes{{study.title(), std::move(outcome)}};
  add_outcomes(kFailurePrediction.name, kFailurePrediction.paper, std::move(outcomes), kTasksCommand, report);
}

}  // namespace attest
