// Reads tasks files with HDF5 in a guarded child, which sends them packed (JSON cannot represent infinity).
#include "analysis/outcomes/tasks_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <tuple>

#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/json_packed.h"
#include "dumps/base/printable.h"
#include "dumps/dump_info.h"
#include "dumps/format/file_format.h"
#include "dumps/hdf5/dataset.h"
#include "dumps/hdf5/guarded_child.h"
#include "dumps/hdf5/node.h"

namespace attest {
namespace {

using hdf5::Dataset;
using hdf5::Group;
Dataset list_of(const Group& group, const char* name, std::int64_t count, const char* meaning) {
  Dataset data(group.open(name));
  data.expect_shape({&count, 1}, meaning);
  return data;
}

std::int64_t length_of(const Group& group, const char* name, const char* what) {
  const Dataset data(group.open(name));
  if (data.shape().size() != 1 || data.shape()[0] == 0) data.fail(fmt::format("is not a list of {}", what));
  return data.shape()[0];
}

Json read_prompts(const Group& group, std::int64_t prompts) {
  const Dataset names = list_of(group, "name", prompts, "prompts"), tasks = list_of(group, "task", prompts, "prompts"),
                lengths = list_of(group, "num_tokens", prompts, "prompts");
  list_of(group, "answer", prompts, "prompts");
  const std::vector<std::string> name = names.read_strings();
  std::set<std::string> known;
  for (std::size_t p = 0; p < name.size(); ++p)
    if (!known.insert(name[p]).second)
      names.fail(fmt::format("[{}] is '{}' again, expected each prompt once", p, excerpt(name[p])));
  const std::vector<std::int64_t> length = lengths.read_integers();
  for (std::size_t p = 0; p < length.size(); ++p)
    if (length[p] < 1 || length[p] > kLargestCount)
      lengths.fail(fmt::format("[{}] is {}, expected 1 to {}", p, length[p], kLargestCount));
  return {{"name", name}, {"task", tasks.read_strings()}, {"num_tokens", length}};
}

Json read_runs(const Group& group, std::int64_t runs) {
  const Dataset labels = list_of(group, "label", runs, "runs"), selectors = list_of(group, "selector", runs, "runs"),
                options = list_of(group, "options", runs, "runs"), kinds = list_of(group, "setting_kind", runs, "runs"),
                settings = list_of(group, "setting", runs, "runs"),
                typed = list_of(group, "setting_label", runs, "runs"),
                percents = list_of(group, "setting_percent", runs, "runs");
  const std::vector<std::string> label = labels.read_strings(), selector = selectors.read_strings(),
                                 option = options.read_strings(), kind = kinds.read_strings();
  const std::vector<double> setting = settings.read_doubles();
  const std::vector<std::int64_t> percent = percents.read_integers();
  if (selector[0] != "exact")
    selectors.fail(fmt::format("[0] is '{}', expected 'exact': the first run is dense", excerpt(selector[0])));
  std::set<std::tuple<std::string, double, std::int64_t>> known;
  for (std::size_t r = 0; r < label.size(); ++r) {
    const auto info = std::ranges::find(kSettingKinds, std::string_view(kind[r]), &SettingKindInfo::name);
    if (info == std::end(kSettingKinds))
      kinds.fail(fmt::format("[{}] is '{}', expected none, delta, budget, p or factor", r, excerpt(kind[r])));
    if (percent[r] != 0 && percent[r] != 1) percents.fail(fmt::format("[{}] is {}, expected 0 or 1", r, percent[r]));
    const bool none = info->kind == SettingKind::none;
    if (none ? !(setting[r] == 0 && percent[r] == 0) : !is_valid(info->kind, {setting[r], percent[r] != 0}))
      settings.fail(fmt::format("[{}] is {}{}, expected {}", r, setting[r], percent[r] != 0 ? "%" : "",
                                none ? "0: the run has no setting" : info->valid));
    if (const std::optional<Json> parsed = parsed_json(option[r]); !parsed || !parsed->is_object())
      options.fail(fmt::format("[{}] is '{}', expected a JSON object", r, excerpt(option[r])));
    if (!known.insert({label[r], setting[r], percent[r]}).second)
      labels.fail(fmt::format("[{}] is '{}' at {}{} again, expected each label and setting once", r, excerpt(label[r]),
                              setting[r], percent[r] != 0 ? "%" : ""));
  }
  return {
      {"label", label},     {"selector", selector},         {"options", option}, {"kind", kind}, {"setting", setting},
      {"percent", percent}, {"typed", typed.read_strings()}};
}

std::string read_scores(const Group& group, std::string_view name, std::span<const std::int64_t> shape) {
  const Dataset data(group.open(std::string(name)));
  data.expect_shape(shape, "prompts, runs");
  std::string scores;  // a byte each
  for (const std::int64_t value : data.read_integers()) {
    if (value < 0 || value > 2)
      data.fail(fmt::format("[{}, {}] is {}, expected 0 (wrong), 1 (right) or 2 (not scored)",
                            static_cast<std::int64_t>(scores.size()) / shape[1],
                            static_cast<std::int64_t>(scores.size()) % shape[1], value));
    scores += static_cast<char>(value);
  }
  return scores;
}

std::vector<double> read_kept_ratios(const Group& group, std::span<const std::int64_t> shape) {
  const Dataset data(group.open("kept_ratio"));
  data.expect_shape(shape, "prompts, runs");
  const std::vector<float> stored = data.read_floats();
  std::vector<double> ratios(stored.begin(), stored.end());
  for (std::size_t i = 0; i < ratios.size(); ++i)
    if (!(ratios[i] >= 0 && ratios[i] <= 1))
      data.fail(fmt::format("[{}, {}] is {}, expected 0 to 1", static_cast<std::int64_t>(i) / shape[1],
                            static_cast<std::int64_t>(i) % shape[1], ratios[i]));
  return ratios;
}

Json scan_tasks_file(const std::string& path) {
  const Group root = hdf5::root_of(hdf5::open_file(path));
  const std::string format = root.string_attribute("format");
  if (format != kTasksFormat)
    root.fail(
        fmt::format("attribute 'format' is '{}', expected '{}'{}", excerpt(format), kTasksFormat, format_hint(format)));
  root.integer_attribute("format_version", kTasksVersion, kTasksVersion);
  Json file = {{"model", root.string_attribute("model")}};
  const Group prompts = root.group("prompts"), runs = root.group("runs"), outcomes = root.group("outcomes");
  const std::int64_t shape[] = {length_of(prompts, "name", "prompts"), length_of(runs, "label", "runs")};
  if (shape[0] > kMaxAnswers / shape[1])
    root.fail(fmt::format("has {} prompts and {} runs, expected at most {} answers", shape[0], shape[1], kMaxAnswers));
  file["prompts"] = read_prompts(prompts, shape[0]);
  file["runs"] = read_runs(runs, shape[1]);
  for (const std::string_view name : kScoreNames) file["scores"].push_back(read_scores(outcomes, name, shape));
  file["kept_ratio"] = read_kept_ratios(outcomes, shape);
  for (const char* name : {"answer", "num_tokens"})  // not needed here
    Dataset(outcomes.open(name)).expect_shape(shape, "prompts, runs");
  return file;
}

TasksFile tasks_file_of(const std::string& path, const Json& found) {
  TasksFile file{.path = path,
                 .model = found.at("model").text(),
                 .prompts = {},
                 .runs = {},
                 .scores = {},
                 .kept_ratio = found.at("kept_ratio").as<std::vector<double>>()};
  const Json &prompts = found.at("prompts"), &runs = found.at("runs");
  for (std::size_t p = 0; p < prompts.at("name").size(); ++p)
    file.prompts.push_back(
        {prompts.at("name").at(p).text(), prompts.at("task").at(p).text(), prompts.at("num_tokens").at(p).whole()});
  for (std::size_t r = 0; r < runs.at("label").size(); ++r) {
    const std::string& kind = runs.at("kind").at(r).text();
    TaskRun run{.label = runs.at("label").at(r).text(),
                .selector = runs.at("selector").at(r).text(),
                .options_json = runs.at("options").at(r).text(),
                .setting = {runs.at("setting").at(r).number(), runs.at("percent").at(r).whole() != 0},
                .typed = runs.at("typed").at(r).text()};
    for (const SettingKindInfo& info : kSettingKinds)
      if (info.name == kind) run.kind = info.kind;
    file.runs.push_back(std::move(run));
  }
  for (std::size_t kind = 0; kind < kScoreNames.size(); ++kind)
    for (const char value : found.at("scores").at(kind).text()) file.scores[kind].push_back(static_cast<Score>(value));
  return file;
}

}  // namespace

TasksFile read_tasks_file(const std::string& path) {
  const ChildLimits limits = metadata_limits(InputFile(path).stored_bytes());
  std::string found;
  run_in_guarded_child(
      path, limits,
      [&](ChildOutput& out) {
        const std::string bytes = packed(scan_tasks_file(path));
        out.write(std::as_bytes(std::span(bytes)));
      },
      [&](ChildInput& in) { found = in.read_all(limits.memory_bytes); });
  try {
    TasksFile file = tasks_file_of(path, unpacked(found));
    const std::size_t answers = file.prompts.size() * file.runs.size();
    for (const std::vector<Score>& scores : file.scores)
      if (scores.size() != answers || file.kept_ratio.size() != answers || answers == 0)
        throw InputError(fmt::format("{}: changed while it was read", path));
    return file;
  } catch (const JsonError& error) {  // the file corrupted the memory of the child
    throw InputError(fmt::format("{}: the file is damaged ({})", path, error.what()));
  }
}

std::optional<ScoreKind> shared_score(const TasksFile& file, std::size_t prompt, std::size_t run) {
  for (std::size_t kind = 0; kind < kScoreNames.size(); ++kind) {
    const auto of = static_cast<ScoreKind>(kind);
    if (file.score(of, prompt, 0) != Score::not_scored && file.score(of, prompt, run) != Score::not_scored) return of;
  }
  return std::nullopt;
}

bool is_tasks_file(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  try {
    return file_format(path) == kTasksFormat;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace attest
