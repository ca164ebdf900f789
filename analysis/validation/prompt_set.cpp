// Gathers the prompts of results files, and refuses those that cannot be judged together.
#include "analysis/validation/prompt_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "analysis/results/manifest_inputs.h"
#include "analysis/study/selector_options.h"
#include "analysis/study/typed_setting.h"
#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

std::string one_model(ResultsFiles files, const std::string& asked) {
  std::vector<std::string> models;
  for (const ResultsFile* file : files)
    for (const StudyDump& dump : file->study().dumps) models.push_back(dump.model);
  return judged_model(models, asked);
}

/// The label that is judged, in the first file: the one asked for, else the only one whose attention is not exact.
std::string chosen_label(const ResultsFile& file, const std::string& asked) {
  const std::vector<StudySelector>& all = file.study().selectors;
  std::vector<std::string> labels, named;
  for (const StudySelector& selector : all) {
    if (!asked.empty() && selector.label == asked) return asked;
    if (asked.empty() ? selector.name != "exact" : selector.name == asked) named.push_back(selector.label);
    labels.push_back(selector.label);
  }
  if (named.size() == 1) return named.front();
  const std::string list = printable(join(labels, ", "));
  if (asked.empty())
    throw UsageError(fmt::format("{} has the selectors {}: --selector LABEL says which are judged, and may be repeated",
                                 file.path(), list));
  throw UsageError(fmt::format("--selector: {} has no single selector labelled or named '{}'; it has {}", file.path(),
                               printable(asked), list));
}

/// Why the selectors of two files are not one; empty if they are.
std::string difference(const StudySelector& a, const StudySelector& b) {
  if (a.name != b.name) return fmt::format("'{}' is {} in one and {} in the other", a.label, a.name, b.name);
  if (!same_options(a.name, a.options_json, b.options_json))
    return printable(
        fmt::format("'{}' has the options {} in one and {} in the other", a.label, a.options_json, b.options_json));
  if (a.kind != b.kind || a.grid != b.grid)
    return printable(fmt::format("'{}' has the settings {} in one and {} in the other", a.label,
                                 join(a.setting_labels, ","), join(b.setting_labels, ",")));
  return {};
}

std::vector<int> layers_in(const std::vector<int>& layers, const PromptScope& scope) {
  if (scope.layers.empty()) return layers;
  std::vector<int> chosen;
  for (const int layer : layers)
    if (std::ranges::any_of(scope.layers, [=](auto range) { return layer >= range.first && layer <= range.second; }))
      chosen.push_back(layer);
  return chosen;
}

/// The layers in which any sample of the model was studied, ascending.
std::vector<int> layers_of(const ResultsFile& file, const std::string& model) {
  std::set<int> layers;
  for (const StudyDump& dump : file.study().dumps)
    for (const StudySample& sample : dump.samples)
      if (dump.model == model) layers.insert(sample.layers.begin(), sample.layers.end());
  return {layers.begin(), layers.end()};
}

/// Ranges that end at a number must lie within what was studied.
void check_ranges(const std::vector<int>& layers, const PromptScope& scope) {
  for (const auto& [first, last] : scope.layers)
    for (const int layer : {first, last})
      if (layer != kOpenEnd && std::ranges::count(layers, layer) == 0)
        throw UsageError(
            fmt::format("--layers: layer {} is not in the results, which have {}", layer, join(layers, ", ")));
}

void check_done(const Prompt& prompt, std::size_t selector) {
  const std::vector<std::uint8_t>& done = prompt.file->done(prompt.dump, prompt.sample, selector);
  for (const std::size_t row : prompt.rows)
    if (done[row] == 0)
      throw InputError(
          fmt::format("{}: layer {} of sample '{}' was left out of the study, so that this prompt cannot be judged; "
                      "--layers without this layer judges the others",
                      prompt.file->path(), prompt.of_study().layers[row], printable(prompt.name)));
}

/// A hash of a prompt's exact scores: two prompts of many cells with the same scores are one prompt. Empty if there are
/// too few different cells to tell.
std::optional<std::uint64_t> fingerprint(const Prompt& prompt) {
  const std::optional<MetricArray> lse = prompt.file->read_scores(prompt.dump, prompt.sample, "lse");
  if (!lse) return std::nullopt;
  constexpr std::size_t kFewest = 8;
  std::set<float> different;
  for (const float x : lse->values)
    if (x == x && different.size() < kFewest) different.insert(x);
  if (different.size() < kFewest) return std::nullopt;
  return hash_of(std::as_bytes(std::span(lse->values)));
}

[[noreturn]] void refuse_twice(const Prompt& a, const Prompt& b) {
  const std::string where =
      a.file == b.file ? a.file->path() : fmt::format("{} and {}", a.file->path(), b.file->path());
  throw UsageError(
      printable(fmt::format("{}: samples '{}' and '{}' are the same prompt, which would count twice: its "
                            "results are not independent",
                            where, a.name, b.name)));
}

void check_once(const std::vector<Prompt>& prompts) {
  std::map<std::pair<std::string, std::string>, const Prompt*> by_name;
  std::map<std::tuple<std::int64_t, std::vector<std::int64_t>, std::uint64_t>, const Prompt*> by_content;
  for (const Prompt& prompt : prompts) {
    const auto named = by_name.try_emplace({prompt.origin, prompt.name}, &prompt);
    if (!named.second) refuse_twice(*named.first->second, prompt);
    if (const std::optional<std::uint64_t> content = fingerprint(prompt)) {
      const auto same =
          by_content.try_emplace({prompt.num_tokens, prompt.of_study().query_positions, *content}, &prompt);
      if (!same.second) refuse_twice(*same.first->second, prompt);
    }
  }
}

/// Adds the prompts of one file. `label`: of the selector; empty: there are candidates.
void add_file(const ResultsFile& file, const std::string& label, const PromptScope& scope, PromptSet& set) {
  const std::vector<int> studied = layers_of(file, set.model);
  if (studied.empty()) return;  // of other models
  const std::vector<LabelledSetting> columns = columns_of(file, set.candidates);
  const auto selector = columns.empty() ? file.find_selector(label) : std::optional(columns.front().selector);
  if (!selector)
    throw UsageError(fmt::format("{} has no selector '{}', which {} has: give results of one study", file.path(),
                                 printable(label), set.prompts.front().file->path()));
  const StudySelector group = columns.empty() ? file.study().selectors[*selector] : selector_of(set.candidates);
  if (set.prompts.empty()) {
    check_ranges(studied, scope);
    set.selector = group;
    set.layers = layers_in(studied, scope);
    if (set.layers.empty()) throw UsageError(fmt::format("{}: no layer is left to judge", file.path()));
  } else if (const std::vector<int> own = layers_in(studied, scope); own != set.layers) {
    throw UsageError(
        fmt::format("{} and {} are of different studies: layers {} in one, {} in the other; choose common "
                    "ones by --layers",
                    set.prompts.front().file->path(), file.path(), join(set.layers, ","), join(own, ",")));
  }
  const std::vector<ManifestInput> inputs = manifest_inputs(file.manifest());
  for (std::size_t d = 0; d < file.study().dumps.size(); ++d) {
    const StudyDump& dump = file.study().dumps[d];
    if (dump.model != set.model) continue;
    for (std::size_t s = 0; s < dump.samples.size(); ++s) {
      const StudySample& sample = dump.samples[s];
      const std::vector<int> layers = layers_in(sample.layers, scope);
      if (set.prompts.empty()) {
        set.shape = dump.shape;
        set.num_layers = dump.num_layers;
      }
      const std::string& first = set.prompts.empty() ? file.path() : set.prompts.front().file->path();
      if (const std::string text = difference(set.selector, group); !text.empty())
        throw UsageError(fmt::format("{} and {} are of different studies: {}", first, file.path(), text));
      if (dump.shape.num_query_heads != set.shape.num_query_heads || dump.shape.num_kv_heads != set.shape.num_kv_heads)
        throw UsageError(
            fmt::format("{} and {} are of different studies: {} query and {} KV heads in one, {} and {} in the other",
                        first, file.path(), set.shape.num_query_heads, set.shape.num_kv_heads,
                        dump.shape.num_query_heads, dump.shape.num_kv_heads));
      Prompt prompt{.file = &file,
                    .dump = d,
                    .sample = s,
                    .selector = *selector,
                    .name = sample.name,
                    .task = sample.task,
                    .num_tokens = sample.num_tokens,
                    .origin = d < inputs.size() && !inputs[d].content_hash.empty() ? inputs[d].content_hash : dump.path,
                    .rows = {},
                    .columns = columns};
      for (const int layer : layers)
        prompt.rows.push_back(
            static_cast<std::size_t>(std::ranges::find(sample.layers, layer) - sample.layers.begin()));
      check_done(prompt, prompt.selector);
      for (const LabelledSetting& column : columns) check_done(prompt, column.selector);
      set.in_fewer_layers += layers.size() < set.layers.size() ? 1 : 0;
      set.prompts.push_back(std::move(prompt));
    }
  }
}

}  // namespace

std::size_t PromptSet::num_clusters() const { return std::set<std::size_t>(clusters.begin(), clusters.end()).size(); }

std::int64_t PromptSet::shortest() const { return std::ranges::min(prompts, {}, &Prompt::num_tokens).num_tokens; }
std::int64_t PromptSet::longest() const { return std::ranges::max(prompts, {}, &Prompt::num_tokens).num_tokens; }

std::string judged_model(std::span<const std::string> found, const std::string& asked) {
  std::vector<std::string> models;
  for (const std::string& model : found)
    if (std::ranges::count(models, model) == 0) models.push_back(model);
  const std::string list = printable(fmt::format("'{}'", join(models, "', '")));
  if (!asked.empty() && std::ranges::count(models, asked) == 0)
    throw UsageError(fmt::format("--model: no prompt is of the model '{}'; they are of {}", printable(asked), list));
  if (asked.empty() && models.size() > 1)
    throw UsageError(fmt::format("the prompts are of the models {}; a verdict is about one: --model NAME", list));
  return asked.empty() ? models.front() : asked;
}

PromptSet gather_prompts(ResultsFiles files, const PromptScope& scope) {
  PromptSet set;
  for (const ResultsFile* file : files)
    if (std::ranges::all_of(file->study().dumps, [](const StudyDump& dump) { return dump.samples.empty(); }))
      throw InputError(fmt::format("{}: holds no sample", file->path()));
  set.model = one_model(files, scope.model);
  const auto of_model = [&](const ResultsFile* file) { return !layers_of(*file, set.model).empty(); };
  const auto first = std::ranges::find_if(files, of_model);
  if (first == files.end()) throw InputError(fmt::format("{}: holds no layer", files.front()->path()));
  if (!scope.candidates.empty()) set.candidates = find_candidates(**first, scope.candidates);
  const std::string label = set.candidates.empty() ? chosen_label(**first, scope.selector) : std::string();
  for (const ResultsFile* file : files) add_file(*file, label, scope, set);
  if (set.prompts.empty()) throw InputError(fmt::format("{}: holds no sample", files.front()->path()));
  set.all_layers = static_cast<int>(set.layers.size()) == set.num_layers;
  check_once(set.prompts);
  std::ranges::sort(set.prompts, [](const Prompt& a, const Prompt& b) {
    return std::tie(a.origin, a.name) < std::tie(b.origin, b.name);
  });
  set.settings = safest_first(set.selector, set.longest());
  if (!set.candidates.empty()) std::ranges::reverse(set.settings);  // places grow from the safest on
  make_clusters(set, scope.cluster);
  return set;
}

void refuse_cluster(const std::string& path, const std::string& sample, const std::string& key) {
  throw UsageError(
      printable(fmt::format("--cluster: {}: sample '{}' has no attribute '{}', expected a text", path, sample, key)));
}

void make_clusters(PromptSet& set, const std::string& key) {
  set.cluster_key = key;
  set.clusters.clear();
  std::map<std::string, std::size_t> numbers;
  for (const Prompt& prompt : set.prompts) {
    if (key.empty()) {
      set.clusters.push_back(set.clusters.size());
      continue;
    }
    std::optional<std::string> value;
    if (key == "task") value = prompt.task;
    if (!value && prompt.file != nullptr)
      if (const auto found = prompt.of_study().attributes.find(key); found != prompt.of_study().attributes.end())
        value = found->second;
    if (!value) refuse_cluster(prompt.path(), prompt.name, key);
    set.clusters.push_back(numbers.try_emplace(*value, numbers.size()).first->second);
  }
}

std::size_t find_setting(const PromptSet& set, std::string_view typed, std::string_view place) {
  const StudySelector& selector = set.selector;
  for (std::size_t s = 0; s < selector.grid.size(); ++s)
    if (is_setting(selector, s, typed)) return s;
  throw UsageError(printable(
      fmt::format("{}: '{}' of {} was not studied at {}; the results have {}",
                  place.empty() ? fmt::format("--{}", name_of(selector.kind)) : std::string(place), selector.label,
                  set.prompts.front().file->path(), typed, join(selector.setting_labels, ", "))));
}

std::vector<std::size_t> safest_first(const StudySelector& selector, std::int64_t longest) {
  std::vector<std::size_t> order(selector.grid.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto kept = [&](std::size_t s) {
    const double value = selector.grid[s].resolve(longest);
    return selector.kind == SettingKind::factor ? -value : value;
  };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return kept(a) > kept(b); });
  return order;
}

}  // namespace attest
