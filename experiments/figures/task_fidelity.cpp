// Table of methods and tasks: fidelity where the paper has accuracy (RULER, LongBench).
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "dumps/base/join.h"
#include "experiments/figures/figures.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/quality_curves.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/span_quality.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace task_fidelity_figure {

constexpr const char* kAllTasks = "all";

struct Row {
  std::string task;
  const PooledSelector* selector = nullptr;
  std::size_t setting = 0;
  bool whole_model = false;
  std::size_t samples = 0;
  SpanQuality spans = {};
  Moments recall = {};
  double lse_error_max = 0, keep = 0, io = 0;

  const std::string& label() const { return selector->group.label; }
};

/// The rows of one selector: for each of the shown settings each task, then all tasks.
void add_rows(const ModelStudy& study, const PooledSelector& selector, const std::set<int>& except, bool whole_model,
              const std::set<std::string>& tasks, std::vector<Row>& rows) {
  const SpanCells spans(study, selector, except);
  const auto recall = study.cells(selector, "recall", except), lse = study.cells(selector, "lse_error", except);
  const auto keep = study.cells(selector, "keep_ratio", except), io = study.cells(selector, "io_ratio", except);
  std::vector<std::string> chosen(tasks.begin(), tasks.end());
  chosen.emplace_back();
  for (const std::size_t s : shown_settings(selector.group))
    for (const std::string& task : chosen) {
      const std::vector<SampleCells> cells = of_task(recall.at(s), task);
      Row row{.task = task.empty() ? kAllTasks : apart_from(kAllTasks, "task", task),
              .selector = &selector,
              .setting = s,
              .whole_model = whole_model};
      row.samples = static_cast<std::size_t>(
          std::ranges::count_if(cells, [](const SampleCells& c) { return !c.values.empty(); }));
      row.spans = spans.at(s, task);
      row.recall = describe(cells);
      row.lse_error_max = describe(of_task(lse.at(s), task)).max;
      row.keep = describe(of_task(keep.at(s), task)).mean;
      row.io = describe(of_task(io.at(s), task)).mean;
      if (row.recall.count > 0) rows.push_back(std::move(row));
    }
}

Table table_of(const std::vector<Row>& rows) {
  return make_table<Row>(
      rows, {{{"layers", kText, "layers"}, [](const Row& r) { return r.whole_model ? "all" : "compared"; }},
             {{"task", kText, "task"}, [](const Row& r) { return display_name(r.task); }},
             {{"label", kText, "selector"}, [](const Row& r) { return legend_title(*r.selector); }},
             {{"setting", kText, "setting"}, [](const Row& r) { return std::string(name_of(r.selector->group.kind)); }},
             {{"setting_label", kText, "at"},
              [](const Row& r) { return display_name(r.selector->group.setting_labels[r.setting]); }},
             {{"samples", kNumber, "samples", 0}, [](const Row& r) { return static_cast<double>(r.samples); }},
             {{"io_ratio", kNumber, "bytes read", 4}, [](const Row& r) { return r.io; }},
             {{"keep_ratio", kNumber, "tokens kept", 4}, [](const Row& r) { return r.keep; }},
             {{"span_keep", kNumber, "span kept", 4}, [](const Row& r) { return r.spans.keep; }},
             {{"span_recall_mean", kNumber, "span recall, mean", 4}, [](const Row& r) { return r.spans.recall_mean; }},
             {{"span_recall_min", kNumber, "min", 4}, [](const Row& r) { return r.spans.recall_min; }},
             {{"recall_mean", kNumber, "recall, mean", 4}, [](const Row& r) { return r.recall.mean; }},
             {{"recall_min", kNumber, "min", 4}, [](const Row& r) { return r.recall.min; }},
             {{"lse_error_max", kNumber, "LSE error, max (nats)"}, [](const Row& r) { return r.lse_error_max; }},
             {{"retrieval_cells", kNumber, "retrieval cells", 0},
              [](const Row& r) { return static_cast<double>(r.spans.retrieval_cells); }},
             {{"cells", kNumber, "cells", 0}, [](const Row& r) { return static_cast<double>(r.recall.count); }}});
}

std::string named(const Row& row) { return named_setting(row.selector->group, row.setting); }

/// The rows of a selector's setting, by task, over the compared layers.
std::vector<const Row*> rows_of(const std::vector<Row>& rows, const PooledSelector& selector, std::size_t setting) {
  std::vector<const Row*> chosen;
  for (const Row& row : rows)
    if (!row.whole_model && row.selector == &selector && row.setting == setting && row.task != kAllTasks)
      chosen.push_back(&row);
  return chosen;
}

/// Says in which task a selector does worst.
void add_worst_task(const std::vector<const Row*>& tasks, std::vector<Finding>& findings) {
  const Row& worst = **std::ranges::min_element(tasks, {}, [](const Row* r) { return r->recall.mean; });
  std::string spans;
  const Row* lowest = nullptr;
  for (const Row* row : tasks)
    if (row->spans.retrieval_cells > 0 && (!lowest || row->spans.recall_min < lowest->spans.recall_min)) lowest = row;
  if (lowest)
    spans =
        fmt::format("; the lowest span recall is {:.4f}, in {}", lowest->spans.recall_min, display_name(lowest->task));
  constexpr double kWarningRecall = 0.9;
  const bool low = worst.recall.mean < kWarningRecall || (lowest && lowest->spans.recall_min < kWarningRecall);
  findings.push_back({.text = fmt::format("Of {}, {} has its lowest mean recall in {} ({:.4f}){}.",
                                          counted(static_cast<std::int64_t>(tasks.size()), "task"), named(worst),
                                          display_name(worst.task), worst.recall.mean, spans),
                      .severity = low ? Severity::warning : Severity::note,
                      .number = fmt::format("recall {:.4f}", worst.recall.mean),
                      .place = MapPlace{.metric = "recall",
                                        .selector = worst.label(),
                                        .setting = worst.selector->group.setting_labels[worst.setting]}});
}

/// Compares FFD with Quest at the settings of the paper's tables: delta 5, half of the tokens.
void add_comparison(const ModelStudy& study, const std::vector<Row>& rows, std::vector<Finding>& findings) {
  std::vector<const Row*> ours, theirs;
  for (const PooledSelector& selector : study.selectors()) {
    const std::vector<std::size_t> settings = shown_settings(selector.group);
    if (selector.group.name == "ffd" && ours.empty()) ours = rows_of(rows, selector, settings.front());
    if (selector.group.name != "quest" || !theirs.empty()) continue;
    for (const std::size_t s : settings)
      if (selector.group.grid[s].percent || theirs.empty()) theirs = rows_of(rows, selector, s);
  }
  int above = 0, both = 0;
  double our_io = 0, their_io = 0;
  for (const Row* a : ours)
    for (const Row* b : theirs) {
      if (a->task != b->task) continue;
      ++both;
      above += a->recall.mean > b->recall.mean ? 1 : 0;
      our_io += a->io;
      their_io += b->io;
    }
  if (both == 0 || !study.have_same_prompts(*ours.front()->selector, *theirs.front()->selector)) return;
  for (const Row* row : {ours.front(), theirs.front()})
    if (!row->selector->of_all_samples(row->setting)) return;
  findings.push_back(
      {.text = fmt::format("{} has a higher mean recall than {} in {} of {} ({:.1f} against {:.1f} % of the "
                           "bytes, mean over tasks).",
                           named(*ours.front()), named(*theirs.front()), above, counted(both, "task"),
                           100 * our_io / both, 100 * their_io / both),
       .severity = above == both ? Severity::good : Severity::note,
       .number = fmt::format("{} of {}", above, counted(both, "task"))});
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions&) {
  const std::set<int> dense = study.dense_layers(labels_of(study));
  std::set<std::string> tasks;
  for (const PooledSelector& selector : study.selectors())
    for (const std::vector<SampleCells>& cells : study.cells(selector, "recall"))
      for (const SampleCells& sample : cells)
        if (!sample.task.empty()) tasks.insert(sample.task);
  if (tasks.empty()) return Unsupported{"needs samples that name their task"};
  std::vector<Row> rows;
  for (const bool whole_model : {false, true}) {
    if (whole_model && dense.empty()) continue;
    for (const PooledSelector& selector : study.selectors())
      if (selector.group.name != "exact")
        add_rows(study, selector, whole_model ? std::set<int>{} : dense, whole_model, tasks, rows);
  }
  if (std::ranges::none_of(rows, [](const Row& r) { return !r.whole_model; }))
    return Unsupported{"needs a selector other than exact and a layer that is dense in no selector",
                       "--selector ffd --selector quest:dense_layers=0"};
  std::ranges::stable_sort(rows, {},
                           [&](const Row& r) { return std::tuple(r.whole_model, r.task == kAllTasks, r.task); });

  ExperimentResult result;
  add_comparison(study, rows, result.findings);
  for (const PooledSelector& selector : study.selectors())
    if (const auto own = rows_of(rows, selector, shown_settings(selector.group).front());
        own.size() > 1 && !selector.is_oracle())
      add_worst_task(own, result.findings);
  std::vector<const StudySelector*> groups;
  for (const Row& row : rows) groups.push_back(&row.selector->group);
  result.tables.push_back(
      {"task_fidelity",
       fmt::format(
           "Methods and tasks at the settings of the methods' papers; {}. Accuracy is not derivable from dumps: "
           "these are the fidelity of attention on each task's prompts. Span: the evidence tokens; span recall: "
           "over the cells that put at least {:g} of their attention on them.{}{}",
           study.source(), kRetrievalMass,
           dense.empty()
               ? std::string()
               : fmt::format(" Compared layers: without {}, dense in one of the selectors.", layers_in_words(dense)),
           without_paper_settings(groups, "all settings are shown")),
       table_of(rows)});
  return result;
}

}  // namespace task_fidelity_figure

Experiment task_fidelity_experiment() {
  return {.name = "task_fidelity",
          .paper = "Tables RULER and LongBench",
          .needs = "samples that name their task, and a selector other than exact; evidence spans for span recall",
          .make = task_fidelity_figure::make};
}

}  // namespace attest
