// Task outcomes as a table: a row per run, a column per task and length with the share of prompts answered right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/outcomes/tasks_file.h"

namespace attest {

struct AnswerTable {
  struct Column {
    /// The task; where it has prompts of several lengths, with the column's. "kv 4K", or "kv 9.5K-12K" if they differ.
    std::string name;
    std::size_t prompts = 0;
  };
  struct Row {
    std::string label, setting;
    std::vector<double> right;  ///< [column], shares
    double kept_ratio = 0;      ///< mean over all prompts
  };
  ScoreKind score = ScoreKind::contains;  ///< what counts as right: `prefix` where answers were forced
  std::vector<Column> columns;
  std::vector<Row> rows;
};

AnswerTable answer_table(const TasksFile& file);

/// How far the folder of unfinished outcomes is.
struct UnfinishedAnswers {
  std::string begun, program, model;
  std::optional<std::int64_t> prompts;  ///< in all; nothing if they are those of a file
  std::int64_t finished = 0;
};

/// The folder's description; another process may have written it. Throws InputError.
UnfinishedAnswers read_unfinished_answers(const std::string& folder);

/// Of the description in the folder.
inline constexpr const char* kTasksDescription = "tasks.json";

}  // namespace attest
