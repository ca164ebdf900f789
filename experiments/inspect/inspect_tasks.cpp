// Task outcomes as JSON and as a table.
#include "experiments/inspect/inspect_tasks.h"

#include <fmt/core.h>

#include <filesystem>
#include <iostream>
#include <vector>

#include "analysis/outcomes/answer_table.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "dumps/format/file_format.h"
#include "experiments/cli/output/aligned_text.h"

namespace attest {
namespace {

struct Words {
  const char *right, *answered;
};

Words words_of(ScoreKind score) {
  if (score == ScoreKind::prefix) return {"prefix: every token of the answer is predicted", "forced"};
  return {"contains: the answer stands in the reply", "greedy"};
}

Json table_json(const AnswerTable& table) {
  Json prompts = Json::object(), runs = Json::array();
  for (const AnswerTable::Column& column : table.columns) prompts[column.name] = column.prompts;
  for (const AnswerTable::Row& row : table.rows) {
    Json right = Json::object();
    for (std::size_t c = 0; c < row.right.size(); ++c) right[table.columns[c].name] = row.right[c];
    runs.push_back({{"label", row.label}, {"setting", row.setting}, {"right", right}, {"kept_ratio", row.kept_ratio}});
  }
  const Words words = words_of(table.score);
  return {{"right", words.right}, {"answered", words.answered}, {"prompts", prompts}, {"runs", runs}};
}

std::string table_text(const AnswerTable& table) {
  std::vector<std::vector<std::string>> lines = {{"selector", "setting"}, {"prompts", ""}};
  for (const AnswerTable::Column& column : table.columns) {
    lines[0].push_back(printable(column.name));
    lines[1].push_back(std::to_string(column.prompts));
  }
  lines[0].emplace_back("kept");
  lines[1].emplace_back();
  for (const AnswerTable::Row& row : table.rows) {
    lines.push_back({printable(row.label), printable(row.setting)});
    for (const double right : row.right) lines.back().push_back(fmt::format("{:.2f}", right));
    lines.back().push_back(fmt::format("{:.1f} %", 100 * row.kept_ratio));
  }
  return aligned_text(lines, 2) + fmt::format("Right is {}.\n", words_of(table.score).right);
}

}  // namespace

void inspect_tasks(const std::string& path, bool as_json) {
  const TasksFile file = read_tasks_file(path);
  const AnswerTable table = answer_table(file);
  if (as_json) {
    Json document = {{"format", kTasksFormat}, {"model", file.model}};
    document.update(table_json(table));
    std::cout << document.dump(2) << '\n';
    return;
  }
  std::cout << fmt::format("{}: task outcomes of model '{}', {}, {}, {}\n\n", printable(path), printable(file.model),
                           counted(std::ssize(file.prompts), "prompt"), counted(std::ssize(file.runs), "run"),
                           words_of(table.score).answered)
            << table_text(table);
}

bool has_unfinished_tasks(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(folder) / kTasksDescription, error);
}

void inspect_unfinished_tasks(const std::string& folder, bool as_json) {
  const UnfinishedAnswers found = read_unfinished_answers(folder);
  if (as_json) {
    const Json document = {{"path", folder},
                           {"format", fmt::format("{}-partial", kTasksFormat)},
                           {"begun", found.begun},
                           {"program", found.program},
                           {"model", found.model},
                           {"prompts", found.prompts},
                           {"finished_prompts", found.finished}};
    std::cout << document.dump(2) << '\n';
    return;
  }
  std::cout << fmt::format(
      "{}: unfinished task outcomes, begun {} by attest {} with model '{}'\n{}{} prompts are finished. The same "
      "'attest tasks' command with --resume goes on; --force starts over.\n",
      printable(folder), printable(found.begun), printable(found.program), printable(found.model), found.finished,
      found.prompts ? fmt::format(" of {}", *found.prompts) : "");
}

}  // namespace attest
