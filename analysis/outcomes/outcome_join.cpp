// Looks up every answer in the results.
#include "analysis/outcomes/outcome_join.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/study/selector_options.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

/// Where the results have a prompt under a label.
struct Place {
  const ResultsFile* file = nullptr;
  std::size_t dump = 0, sample = 0, selector = 0;

  const StudySample& of_study() const { return file->study().dumps[dump].samples[sample]; }
  const StudySelector& studied() const { return file->study().selectors[selector]; }
};

struct SettingPlace {
  std::size_t place = 0, setting = 0;  ///< of Places::all, of its grid
};

using PromptKey = std::pair<std::string, std::string>;  ///< model, prompt
using SettingKey = std::tuple<SettingKind, double, bool>;

SettingKey key_of(SettingKind kind, const Setting& setting) {
  return kind == SettingKind::none ? SettingKey{kind, 0, false} : SettingKey{kind, setting.value, setting.percent};
}

struct Places {
  std::vector<Place> all;
  std::map<PromptKey, std::map<std::string, std::map<SettingKey, SettingPlace>>> settings;  ///< by prompt, by label
  std::int64_t count = 0;  ///< settings of all, without those of exact attention
};

void add_place(const Place& place, const std::string& model, Places& places) {
  const StudySelector& selector = place.studied();
  if (selector.name == "exact") return;
  auto& settings = places.settings[{model, place.of_study().name}][selector.label];
  for (std::size_t s = 0; s < selector.grid.size(); ++s) {
    const auto [at, is_new] =
        settings.try_emplace(key_of(selector.kind, selector.grid[s]), SettingPlace{places.all.size(), s});
    if (is_new) {
      ++places.count;
      continue;
    }
    const Place& other = places.all.size() > at->second.place ? places.all[at->second.place] : place;
    throw InputError(printable(fmt::format(
        "{} and {} both hold sample '{}' of model '{}' under label '{}' at '{}': which of them was answered cannot be "
        "told; give one of them",
        other.file->path(), place.file->path(), place.of_study().name, model, selector.label,
        selector.setting_labels[s])));
  }
  places.all.push_back(place);
}

Places places_of(ResultsFiles results) {
  Places places;
  for (const ResultsFile* file : results)
    for (std::size_t d = 0; d < file->study().dumps.size(); ++d)
      for (std::size_t s = 0; s < file->study().dumps[d].samples.size(); ++s)
        for (std::size_t i = 0; i < file->study().selectors.size(); ++i)
          add_place({file, d, s, i}, file->study().dumps[d].model, places);
  return places;
}

/// Whether the study has all layers of the prompt.
bool is_whole(const Place& place) {
  return std::ranges::count(place.file->done(place.dump, place.sample, place.selector), 0) == 0;
}

class Joiner {
 public:
  explicit Joiner(ResultsFiles results) : places_(places_of(results)), answers_(places_.all.size()) {}

  void add(const TasksFile& file) {
    std::vector<SelectorOptions> given, complete;
    for (const TaskRun& run : file.runs) {
      given.push_back(selector_options(run.options_json));
      complete.push_back(completed_options(run.selector, given.back()));
    }
    for (std::size_t p = 0; p < file.prompts.size(); ++p) {
      const auto labels = places_.settings.find({file.model, file.prompts[p].name});
      for (std::size_t r = 0; r < file.runs.size(); ++r) {
        const TaskRun& run = file.runs[r];
        if (run.is_dense()) continue;
        refuse_twice(file, p, run);
        if (labels == places_.settings.end()) {
          ++joined_.counts.other_prompt;
          continue;
        }
        const auto settings = labels->second.find(run.label);
        if (settings == labels->second.end()) {
          ++joined_.counts.other_setting;
          continue;
        }
        // Each file may have settings of the label, and with options of its own.
        const auto is_answered = [&](const SettingPlace& at) {
          const StudySelector& studied = places_.all[at.place].studied();
          return studied.name == run.selector &&
                 same_options(selector_options(studied.options_json), given[r], complete[r]);
        };
        const auto found = settings->second.find(key_of(run.kind, run.setting));
        if (found != settings->second.end() && is_answered(found->second))
          add(file, p, r, found->second);
        else if (found == settings->second.end() &&
                 std::ranges::any_of(settings->second, [&](const auto& at) { return is_answered(at.second); }))
          ++joined_.counts.other_setting;
        else
          ++joined_.counts.other_options;
      }
    }
  }

  JoinedAnswers finish(ResultsFiles results, std::span<const TasksFile> tasks) {
    joined_.counts.not_answered = places_.count - answered_;
    joined_.counts.dense_wrong_prompts = static_cast<std::int64_t>(dense_wrong_.size());
    if (answered_ == 0) refuse_nothing(results, tasks);
    for (std::size_t i = 0; i < places_.all.size(); ++i) {
      if (answers_[i].empty()) continue;
      const Place& place = places_.all[i];
      const StudyDump& dump = place.file->study().dumps[place.dump];
      const StudySample& sample = place.of_study();
      AnsweredPrompt prompt{.prompt = {.file = place.file,
                                       .dump = place.dump,
                                       .sample = place.sample,
                                       .selector = place.selector,
                                       .name = sample.name,
                                       .task = sample.task,
                                       .num_tokens = sample.num_tokens,
                                       .origin = dump.path,
                                       .rows = std::vector<std::size_t>(sample.layers.size())},
                            .model = dump.model,
                            .answers = std::move(answers_[i])};
      std::iota(prompt.prompt.rows.begin(), prompt.prompt.rows.end(), std::size_t{0});
      joined_.prompts.push_back(std::move(prompt));
    }
    return std::move(joined_);
  }

 private:
  void add(const TasksFile& file, std::size_t prompt, std::size_t run, const SettingPlace& found) {
    JoinCounts& counts = joined_.counts;
    ++answered_;
    const std::optional<ScoreKind> kind = shared_score(file, prompt, run);
    if (!is_whole(places_.all[found.place])) {
      ++counts.left_out;
    } else if (!kind) {
      ++counts.not_scored;
    } else if (file.score(*kind, prompt, 0) == Score::wrong) {
      ++counts.dense_wrong;
      dense_wrong_.insert({file.model, file.prompts[prompt].name});
    } else {
      ++counts.joined;
      ++counts.by_score[static_cast<std::size_t>(*kind)];
      answers_[found.place].push_back({found.setting, file.score(*kind, prompt, run) == Score::wrong});
    }
  }

  void refuse_twice(const TasksFile& file, std::size_t prompt, const TaskRun& run) {
    const std::string& name = file.prompts[prompt].name;
    const auto [before, is_new] =
        seen_.try_emplace({file.model, name, run.label, key_of(run.kind, run.setting)}, file.path);
    if (is_new) return;
    throw InputError(printable(fmt::format(
        "{} and {} both hold an answer to prompt '{}' of model '{}' under label '{}' at {} {}; give one of them",
        before->second, file.path, name, file.model, run.label, name_of(run.kind), run.typed)));
  }

  /// Names what each side has, so that the difference is seen.
  [[noreturn]] void refuse_nothing(ResultsFiles results, std::span<const TasksFile> tasks) const {
    const TasksFile& file = tasks.front();
    const auto run = std::ranges::find_if(file.runs, [](const TaskRun& r) { return !r.is_dense(); });
    if (run == file.runs.end())
      throw InputError(fmt::format("{}: holds dense answers alone, expected answers through selectors", file.path));
    if (places_.settings.empty())
      throw InputError(
          fmt::format("{}: the results hold no prompt under a selector, expected those that it answers", file.path));
    const JoinCounts& counts = joined_.counts;
    const auto& [prompt, labels] = *places_.settings.begin();
    throw InputError(printable(fmt::format(
        "{} and {} have no run in common: of {} answers, {} are of prompts that the results lack, {} of labels or "
        "settings that they lack, {} of another selector or other options under the same label; an answer is of "
        "model '{}', prompt '{}', label '{}' ({}), the results have model '{}', sample '{}', labels '{}'",
        file.path, results.front()->path(), counts.other_prompt + counts.other_setting + counts.other_options,
        counts.other_prompt, counts.other_setting, counts.other_options, excerpt(file.model),
        excerpt(file.prompts.front().name), excerpt(run->label), excerpt(run->selector), excerpt(prompt.first),
        excerpt(prompt.second), excerpt(join(labels_of(labels), "', '")))));
  }

  template <class Map>
  static std::vector<std::string> labels_of(const Map& by_label) {
    std::vector<std::string> labels;
    for (const auto& [label, settings] : by_label) labels.push_back(label);
    return labels;
  }

  Places places_;
  std::vector<std::vector<AnsweredPrompt::Answer>> answers_;  ///< [Places::all]
  JoinedAnswers joined_;
  std::int64_t answered_ = 0;  ///< settings of the results that have an answer
  std::set<PromptKey> dense_wrong_;
  std::map<std::tuple<std::string, std::string, std::string, SettingKey>, std::string> seen_;  ///< path
};

}  // namespace

JoinedAnswers join_answers(ResultsFiles results, std::span<const TasksFile> tasks) {
  Joiner joiner(results);
  for (const TasksFile& file : tasks) joiner.add(file);
  return joiner.finish(results, tasks);
}

}  // namespace attest
