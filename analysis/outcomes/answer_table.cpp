// Shares of right answers by task and length, and the description of unfinished outcomes.
#include "analysis/outcomes/answer_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "dumps/base/error.h"
#include "dumps/base/json_place.h"

namespace attest {
namespace {

constexpr std::int64_t kMaxPrompts = 1'000'000'000, kMaxLists = 1000;  // of attest tasks
constexpr std::size_t kMostLengths = 8;                                // columns of a task

struct LengthRange {
  std::int64_t shortest, longest;
};

/// Neighbouring lengths as ranges. Each spans less than 1/`part` of its shortest length.
std::vector<LengthRange> ranges_of(const std::set<std::int64_t>& lengths, std::int64_t part) {
  std::vector<LengthRange> ranges;
  for (const std::int64_t length : lengths) {
    if (ranges.empty() || length - ranges.back().shortest >= ranges.back().shortest / part)
      ranges.push_back({length, length});
    else
      ranges.back().longest = length;
  }
  return ranges;
}

/// Prompts that are made for one length differ by some tokens. Those of a file may have any lengths.
std::vector<LengthRange> ranges_of(const std::set<std::int64_t>& lengths) {
  const std::vector<LengthRange> ranges = ranges_of(lengths, 16);
  return ranges.size() <= kMostLengths ? ranges : ranges_of(lengths, 1);
}

/// A length with two digits or more: "500", "1.5K", "24K".
std::string rounded_length(std::int64_t tokens) {
  if (tokens < 1024) return std::to_string(tokens);
  const double thousands = static_cast<double>(tokens) / 1024;
  return fmt::format("{:g}K", thousands < 10 ? std::round(10 * thousands) / 10 : std::round(thousands));
}

std::string column_name(const TaskPrompt& prompt, const std::vector<LengthRange>& ranges) {
  if (ranges.size() < 2) return prompt.task;
  const auto range = std::ranges::lower_bound(ranges, prompt.num_tokens, {}, &LengthRange::longest);
  const std::string shortest = rounded_length(range->shortest), longest = rounded_length(range->longest);
  return fmt::format("{} {}", prompt.task, shortest == longest ? longest : fmt::format("{}-{}", shortest, longest));
}

/// prompt-N.json, whatever N is.
bool is_finished_prompt(const std::string& name) {
  constexpr std::string_view kBegin = "prompt-", kEnd = ".json";
  return name.size() > kBegin.size() + kEnd.size() && name.starts_with(kBegin) && name.ends_with(kEnd) &&
         std::all_of(name.begin() + kBegin.size(), name.end() - kEnd.size(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

/// Tasks times lengths times prompts of each.
std::int64_t made_prompts(const JsonPlace& made) {
  const auto count = [&](const char* list) {
    const auto size = static_cast<std::int64_t>(made[list].elements().size());
    if (size > kMaxLists) made[list].refuse(fmt::format("a list of at most {}", kMaxLists));
    return size;
  };
  return count("tasks") * count("context") * made["prompts"].whole(1, kMaxPrompts);
}

}  // namespace

AnswerTable answer_table(const TasksFile& file) {
  AnswerTable table;
  const std::vector<Score>& contains = file.scores[static_cast<std::size_t>(ScoreKind::contains)];
  if (std::ranges::find(contains, Score::not_scored) != contains.end()) table.score = ScoreKind::prefix;

  std::map<std::string, std::set<std::int64_t>> lengths;
  for (const TaskPrompt& prompt : file.prompts) lengths[prompt.task].insert(prompt.num_tokens);
  std::map<std::string, std::vector<LengthRange>> ranges;
  for (const auto& [task, all] : lengths) ranges[task] = ranges_of(all);
  std::map<std::string, std::size_t> columns;
  std::vector<std::size_t> column_of;
  for (const TaskPrompt& prompt : file.prompts) {
    const std::string name = column_name(prompt, ranges[prompt.task]);
    const auto [column, is_new] = columns.emplace(name, table.columns.size());
    if (is_new) table.columns.push_back({.name = name});
    ++table.columns[column->second].prompts;
    column_of.push_back(column->second);
  }
  for (std::size_t r = 0; r < file.runs.size(); ++r) {
    AnswerTable::Row row{
        .label = file.runs[r].label, .setting = file.runs[r].typed, .right = std::vector<double>(table.columns.size())};
    for (std::size_t p = 0; p < file.prompts.size(); ++p) {
      row.right[column_of[p]] += file.score(table.score, p, r) == Score::right ? 1 : 0;
      row.kept_ratio += file.kept_ratio[p * file.runs.size() + r];
    }
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      row.right[c] /= static_cast<double>(table.columns[c].prompts);
    row.kept_ratio /= static_cast<double>(file.prompts.size());
    table.rows.push_back(std::move(row));
  }
  return table;
}

UnfinishedAnswers read_unfinished_answers(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / kTasksDescription).string();
  const Json begun = read_json_object(path, "the description of task outcomes");
  const JsonPlace root(begun, path), what = root["what"], prompts = what["prompts"];
  UnfinishedAnswers found{.begun = root["record"]["created"].text(),
                          .program = what["program"]["version"].text(),
                          .model = what["model"]["called"].text(),
                          .prompts = {}};
  if (prompts["file"].is_missing()) found.prompts = made_prompts(prompts);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    found.finished += is_finished_prompt(entry->path().filename().string()) ? 1 : 0;
  if (error) throw InputError(fmt::format("{}: cannot be read ({})", folder, error.message()));
  return found;
}

}  // namespace attest
