// Gathers answers of runs by prompt and setting.
#include "analysis/outcomes/answered_prompts.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "analysis/outcomes/outcome_join.h"
#include "analysis/study/selector_options.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

std::string one_model(std::span<const TasksFile> tasks, const std::string& asked) {
  if (!asked.empty() && std::ranges::count(tasks, asked, &TasksFile::model) == 0)
    throw UsageError(fmt::format("--model: the answers are of no model '{}'", printable(asked)));
  if (!asked.empty()) return asked;
  const TasksFile& first = tasks.front();
  for (const TasksFile& file : tasks)
    if (file.model != first.model)
      throw UsageError(fmt::format("{} and {} are of the models '{}' and '{}'; a verdict is about one: --model NAME",
                                   first.path, file.path, printable(first.model), printable(file.model)));
  return first.model;
}

std::string one_label(const TasksFile& file, const std::string& asked) {
  std::vector<std::string> labels;
  for (const TaskRun& run : file.runs)
    if (!run.is_dense() && std::ranges::count(labels, run.label) == 0) labels.push_back(run.label);
  if (!asked.empty() && std::ranges::count(labels, asked) > 0) return asked;
  if (asked.empty() && labels.size() == 1) return labels.front();
  const std::string list = printable(join(labels, ", "));
  throw UsageError(
      asked.empty()
          ? fmt::format("{} has answers through {}: --selector LABEL says which are judged, and may be repeated",
                        file.path, list)
          : fmt::format("--selector: {} has no answers through '{}'; it has {}", file.path, printable(asked), list));
}

/// The label's runs as a selector with its grid.
StudySelector selector_of(const TasksFile& file, const std::string& label) {
  StudySelector selector{.label = label, .name = {}, .options_json = {}, .grid = {}, .setting_labels = {}};
  for (const TaskRun& run : file.runs) {
    if (run.label != label) continue;
    selector.name = run.selector;
    selector.options_json = run.options_json;
    selector.kind = run.kind;
    selector.grid.push_back(run.setting);
    selector.setting_labels.push_back(run.kind == SettingKind::none ? "" : run.typed);
  }
  return selector;
}

/// 1 right, 0 wrong, NaN if dense attention answers wrong or the two have no kind of score in common.
double answer_of(const TasksFile& file, std::size_t prompt, std::size_t run) {
  const std::optional<ScoreKind> kind = shared_score(file, prompt, run);
  if (!kind || file.score(*kind, prompt, 0) == Score::wrong) return kNaN;
  return file.score(*kind, prompt, run) == Score::right ? 1 : 0;
}

/// Where the set has this setting among its own; empty if it is not judged.
std::optional<std::size_t> column_of(const Prompt& prompt, const LabelledSetting& one) {
  if (prompt.columns.empty()) return prompt.selector == one.selector ? one.setting : std::nullopt;
  const auto found = std::ranges::find(prompt.columns, one);
  if (found == prompt.columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - prompt.columns.begin());
}

void add_prompts(const TasksFile& file, PromptSet& set) {
  for (std::size_t p = 0; p < file.prompts.size(); ++p) {
    const TaskPrompt& asked = file.prompts[p];
    const auto same = std::ranges::find(set.prompts, asked.name, &Prompt::name);
    if (same != set.prompts.end())
      throw UsageError(printable(fmt::format("{} and {} both answer prompt '{}', which would count twice", same->origin,
                                             file.path, asked.name)));
    Prompt& prompt = set.prompts.emplace_back(Prompt{
        .name = asked.name, .task = asked.task, .num_tokens = asked.num_tokens, .origin = file.path, .rows = {}});
    for (std::size_t r = 0; r < file.runs.size(); ++r)
      if (file.runs[r].label == set.selector.label) {
        prompt.answers.push_back(answer_of(file, p, r));
        prompt.kept.push_back(file.kept_ratio[p * file.runs.size() + r]);
      }
  }
}

}  // namespace

PromptSet gather_answers(std::span<const TasksFile> tasks, const PromptScope& scope) {
  PromptSet set;
  set.model = one_model(tasks, scope.model);
  for (const TasksFile& file : tasks) {
    if (file.model != set.model) continue;
    const StudySelector selector = selector_of(file, one_label(file, scope.selector));
    if (set.prompts.empty()) set.selector = selector;
    if (selector.label != set.selector.label || selector.name != set.selector.name ||
        !same_options(selector.name, selector.options_json, set.selector.options_json) ||
        selector.kind != set.selector.kind || selector.grid != set.selector.grid)
      throw UsageError(printable(fmt::format("{} and {} differ in the runs of '{}'", set.prompts.front().path(),
                                             file.path, set.selector.label)));
    add_prompts(file, set);
  }
  if (set.prompts.empty()) throw InputError(fmt::format("{}: holds no prompt", tasks.front().path));
  set.settings = safest_first(set.selector, set.longest());
  make_clusters(set, scope.cluster);
  return set;
}

void add_answers(ResultsFiles results, std::span<const TasksFile> tasks, PromptSet& set) {
  const JoinedAnswers joined = join_answers(results, tasks);
  bool any = false;
  for (const AnsweredPrompt& answered : joined.prompts)
    for (Prompt& prompt : set.prompts) {
      if (answered.prompt.file != prompt.file || answered.prompt.dump != prompt.dump ||
          answered.prompt.sample != prompt.sample)
        continue;
      for (const AnsweredPrompt::Answer& answer : answered.answers)
        if (const auto at = column_of(prompt, {answered.prompt.selector, answer.setting})) {
          if (prompt.answers.empty()) prompt.answers.assign(set.selector.grid.size(), kNaN);
          prompt.answers[*at] = answer.failed ? 0 : 1;
          any = true;
        }
    }
  if (!any)
    throw InputError(printable(fmt::format("{}: holds no answer through '{}' that counts, of the prompts of {}",
                                           tasks.front().path, set.selector.label, set.prompts.front().path())));
}

}  // namespace attest
