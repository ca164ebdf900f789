// Splits results files by model and pools their cells.
#include "experiments/study_view/model_study.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <tuple>

#include "analysis/run/input_hashes.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "experiments/study_view/words.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

/// One sample of one dump under one label, as found in one file.
struct StoredSample {
  const ResultsFile* file;
  const StudySample* sample;
  const StudySelector* group;

  bool shares_cells_with(const StoredSample& other) const {
    auto intersect = [](const auto& a, const auto& b) { return std::ranges::find_first_of(a, b) != a.end(); };
    return intersect(sample->layers, other.sample->layers) &&
           intersect(group->setting_labels, other.group->setting_labels);
  }
};

void check_no_duplicate_cells(ResultsFiles files) {
  using Name = std::tuple<std::string_view, std::string_view, std::string_view>;  // dump, sample, label
  std::map<Name, std::vector<StoredSample>> seen;
  for (const ResultsFile* file : files)
    for (const StudyDump& dump : file->study().dumps)
      for (const StudySample& sample : dump.samples)
        for (const StudySelector& group : file->study().selectors) {
          const StoredSample stored{file, &sample, &group};
          std::vector<StoredSample>& namesakes = seen[{dump.path, sample.name, group.label}];
          for (const StoredSample& earlier : namesakes)
            if (earlier.file != file && stored.shares_cells_with(earlier))
              throw UsageError(fmt::format("{} and {} both hold sample '{}' of {} under label '{}': give one of them",
                                           earlier.file->path(), file->path(), sample.name, dump.path, group.label));
          namesakes.push_back(stored);
        }
}

/// Settings that only `from` has are appended.
void add_settings(const StudySelector& from, StudySelector& to) {
  for (std::size_t s = 0; s < from.grid.size(); ++s)
    if (std::ranges::count(to.setting_labels, from.setting_labels[s]) == 0) {
      to.grid.push_back(from.grid[s]);
      to.setting_labels.push_back(from.setting_labels[s]);
    }
}

void merge_selectors(const ResultsFile& file, std::vector<PooledSelector>& selectors) {
  for (const StudySelector& group : file.study().selectors) {
    auto same_label = [&](const PooledSelector& s) { return s.group.label == group.label; };
    const auto known = std::ranges::find_if(selectors, same_label);
    if (known == selectors.end()) {
      selectors.push_back({group});
    } else if (known->group.name != group.name || known->group.kind != group.kind ||
               !same_options(group.name, known->group.options_json, group.options_json)) {
      throw UsageError(
          fmt::format("label '{}' of {} means other options than in the files before it: run the study again with "
                      "another label",
                      group.label, file.path()));
    } else {
      add_settings(group, known->group);
    }
  }
}

/// Keeps the layers for which `wanted(layer)` holds.
template <typename Wanted>
SampleCells chosen_layers(const SampleCells& cells, Wanted wanted) {
  SampleCells chosen{.dump = cells.dump,
                     .sample = cells.sample,
                     .task = cells.task,
                     .num_tokens = cells.num_tokens,
                     .layers = {},
                     .num_queries = cells.num_queries,
                     .num_heads = cells.num_heads,
                     .values = {},
                     .range = cells.range};
  for (std::size_t y = 0; y < cells.layers.size(); ++y) {
    if (!wanted(cells.layers[y])) continue;
    chosen.layers.push_back(cells.layers[y]);
    std::ranges::copy(cells.layer(y), std::back_inserter(chosen.values));
  }
  return chosen;
}

/// Adds layers that `whole`, of the same sample, lacks.
void add_layers(const SampleCells& part, SampleCells& whole) {
  for (std::size_t y = 0; y < part.layers.size(); ++y) {
    const auto at = std::ranges::lower_bound(whole.layers, part.layers[y]);
    const auto cells = part.layer(y);
    whole.values.insert(whole.values.begin() + (at - whole.layers.begin()) * std::ssize(cells), cells.begin(),
                        cells.end());
    whole.layers.insert(at, part.layers[y]);
  }
}

/// For each dump over all files, the number of the first that has its path, model and shape, and whose samples of the
/// same names have the same queries.
std::vector<int> dump_numbers(ResultsFiles files) {
  struct Known {
    int number;
    const ResultsFile* file;  ///< the last
    AttentionShape shape;
    std::map<std::string_view, const StudySample*> samples;
  };
  std::map<std::pair<std::string_view, std::string_view>, std::vector<Known>> known;  // by path and model
  std::vector<int> numbers;
  for (const ResultsFile* file : files)
    for (const StudyDump& dump : file->study().dumps) {
      const auto agrees = [&](const Known& other, const StudySample& sample) {
        const auto found = other.samples.find(sample.name);
        return found == other.samples.end() ||
               (found->second->num_tokens == sample.num_tokens && found->second->task == sample.task &&
                found->second->query_positions == sample.query_positions);
      };
      std::vector<Known>& namesakes = known[{dump.path, dump.model}];
      auto same = std::ranges::find_if(namesakes, [&](const Known& other) {
        return other.file != file && other.shape == dump.shape &&
               std::ranges::all_of(dump.samples, [&](const StudySample& sample) { return agrees(other, sample); });
      });
      if (same == namesakes.end())
        same = namesakes.insert(same, {static_cast<int>(numbers.size()), file, dump.shape, {}});
      same->file = file;
      for (const StudySample& sample : dump.samples) same->samples.emplace(sample.name, &sample);
      numbers.push_back(same->number);
    }
  return numbers;
}

/// "16K tokens": the length of a sample, rounded to a power of two.
std::string length_name(std::int64_t tokens) {
  const std::int64_t rounded = rounded_length(tokens);
  return rounded >= 1024 ? fmt::format("{}K tokens", rounded / 1024) : fmt::format("{} tokens", rounded);
}

std::string title_of(const StudyDump& dump, const StudySample& sample, PoolBy by) {
  if (by == PoolBy::task) return fmt::format("{}, {}", dump.model, task_title(sample.task));
  if (by == PoolBy::length) return fmt::format("{}, {}", dump.model, length_name(sample.num_tokens));
  return dump.model;
}

/// The sample's name; with its dump's file, then with a number, where that is one of `taken`, to which it is added.
std::string new_title(const StudySample& sample, const StudyDump& dump, std::set<std::string>& taken) {
  std::string title = sample.name;
  if (taken.contains(printable(title)))
    title = fmt::format("{} of {}", title, std::filesystem::path(dump.path).filename().string());
  const std::string stem = title;
  for (int n = 2; !taken.insert(printable(title)).second; ++n) title = fmt::format("{} ({})", stem, n);
  return title;
}

}  // namespace

SelectorOptions PooledSelector::options() const { return selector_options(group.options_json); }

std::string PooledSelector::option(std::string_view name) const { return options()[std::string(name)]; }

bool PooledSelector::is_oracle() const {
  const SelectorInfo* info = find_selector(group.name);
  return info != nullptr && info->oracle;
}

bool PooledSelector::has_paper() const { return !is_oracle() && group.name != "imported"; }

std::set<int> ModelStudy::dense_layers(const std::vector<std::string>& labels) const {
  std::set<int> layers;
  for (const PlacedSample& place : samples_)
    for (const std::string& label : labels) {
      const auto selector = place.file->find_selector(label);
      if (!selector) continue;
      const std::vector<std::uint8_t>& dense = place.file->dense(place.dump, place.sample, *selector);
      for (std::size_t y = 0; y < dense.size(); ++y)
        if (dense[y]) layers.insert(place.study_sample().layers[y]);
    }
  return layers;
}

std::vector<std::vector<SampleCells>> ModelStudy::cells(const PooledSelector& selector, std::string_view metric,
                                                        const std::set<int>& except) const {
  const LayerChoice every_layer{.compared = {selector.group.label}, .with_dense_layers = true};
  std::vector<std::vector<SampleCells>> settings =
      gather_settings(files_, selector.group.label, metric, selector.group.setting_labels, every_layer);
  for (std::vector<SampleCells>& samples : settings) samples = mine(samples, except);
  return settings;
}

std::vector<SampleCells> ModelStudy::score_cells(const PooledSelector& selector, std::string_view metric,
                                                 const std::set<int>& except) const {
  const LayerChoice every_layer{.compared = {selector.group.label}, .with_dense_layers = true};
  return mine(gather_scores(files_, selector.group.label, metric, every_layer), except);
}

std::vector<SampleCells> ModelStudy::mine(const std::vector<SampleCells>& gathered, const std::set<int>& except) const {
  std::vector<SampleCells> chosen;
  std::map<SampleKey, std::size_t> places;  // in `chosen`
  for (const SampleCells& sample : gathered) {
    const SampleKey key{dump_numbers_[static_cast<std::size_t>(sample.dump)], sample.sample};
    if (!titles_.contains(key)) continue;
    const auto [place, is_new] = places.emplace(key, chosen.size());
    SampleCells own = chosen_layers(sample, [&](int layer) {
      return !except.contains(layer) && (is_new || std::ranges::count(chosen[place->second].layers, layer) == 0);
    });
    own.dump = key.first;
    if (is_new)
      chosen.push_back(std::move(own));
    else if (SampleCells& whole = chosen[place->second]; own.num_heads == whole.num_heads)  // else of other axes
      add_layers(own, whole);
  }
  return chosen;
}

std::vector<SampleKey> ModelStudy::sample_keys() const {
  std::vector<SampleKey> keys;
  for (const auto& [key, title] : titles_) keys.push_back(key);
  std::ranges::stable_sort(keys, {}, &SampleKey::second);
  return keys;
}

std::string ModelStudy::source() const {
  std::string text = fmt::format("{}, {}, results {}", title_, counted(num_samples(), "sample"), sources_);
  for (const PooledSelector& selector : selectors_)
    if (!selector.partial.empty())
      text += fmt::format("; {} of the {} settings of {} are not of all samples", selector.partial.size(),
                          selector.group.grid.size(), display_name(selector.group.label));
  return text;
}

ModelStudy::StudiedLayers ModelStudy::studied_layers(const PooledSelector& selector, const std::string* setting) const {
  StudiedLayers studied;
  for (const PlacedSample& place : samples_) {
    const auto found = place.file->find_selector(selector.group.label);
    if (!found) continue;
    const std::vector<std::string>& settings = place.file->study().selectors[*found].setting_labels;
    if (setting != nullptr && std::ranges::count(settings, *setting) == 0) continue;
    const std::vector<std::uint8_t>& done = place.file->done(place.dump, place.sample, *found);
    for (std::size_t y = 0; y < done.size(); ++y)
      if (done[y] != 0) studied[place.key].insert(place.study_sample().layers[y]);
  }
  return studied;
}

bool ModelStudy::have_same_prompts(const PooledSelector& a, const PooledSelector& b) const {
  return files_.size() == 1 || studied_layers(a) == studied_layers(b);
}

std::set<SampleKey> ModelStudy::samples_of_both(const PooledSelector& a, const PooledSelector& b) const {
  const StudiedLayers first = studied_layers(a), second = studied_layers(b);
  std::set<SampleKey> both;
  for (const auto& [key, title] : titles_) {
    const auto one = first.find(key), other = second.find(key);
    if (files_.size() == 1 || (one != first.end() && other != second.end() && one->second == other->second))
      both.insert(key);
  }
  return both;
}

void ModelStudy::find_partial_settings(PooledSelector& selector) const {
  const auto has_all = [&](const ResultsFile* file) {
    const auto found = file->find_selector(selector.group.label);
    return !found || file->study().selectors[*found].setting_labels.size() == selector.group.setting_labels.size();
  };
  if (std::ranges::all_of(files_, has_all)) return;
  const StudiedLayers all = studied_layers(selector);
  for (std::size_t s = 0; s < selector.group.setting_labels.size(); ++s)
    if (studied_layers(selector, &selector.group.setting_labels[s]) != all) selector.partial.insert(s);
}

LineStyle ModelStudy::style(const PooledSelector& selector) const {
  const auto index = static_cast<std::size_t>(std::ranges::find(labels_, selector.group.label) - labels_.begin());
  return selector.is_oracle() ? oracle_style(index) : line_style(index);
}

std::vector<SampleCells> score_cells_of_all(const ModelStudy& study, std::string_view metric) {
  std::vector<SampleCells> all;
  std::set<SampleKey> known;
  for (const PooledSelector& selector : study.selectors())
    for (SampleCells& cells : study.score_cells(selector, metric))
      if (known.insert(key_of(cells)).second) all.push_back(std::move(cells));
  return all;
}

std::string sources_in_words(const std::vector<std::string>& paths, int threads) {
  const std::vector<std::string> hashes = content_hashes(paths, threads);
  std::vector<std::string> sources;
  for (std::size_t i = 0; i < paths.size(); ++i)
    sources.push_back(fmt::format("{} ({})", std::filesystem::path(paths[i]).filename().string(), hashes[i]));
  return join(sources, ", ");
}

std::int64_t rounded_length(std::int64_t tokens) {
  if (tokens < 1) return tokens;
  const double power = std::round(std::log2(static_cast<double>(tokens)));
  return power < 63 ? std::int64_t{1} << static_cast<int>(power) : std::numeric_limits<std::int64_t>::max();
}

std::vector<ModelStudy> split_studies(ResultsFiles files, int threads, PoolBy by) {
  check_no_duplicate_cells(files);
  std::vector<ModelStudy> studies;
  std::vector<std::string> labels;
  std::map<std::string, std::set<std::string>> titles;  // of the samples, by study
  const std::vector<int> numbers = dump_numbers(files);
  auto number = numbers.begin();
  for (const ResultsFile* file : files) {
    std::set<std::string> titles_here;
    for (std::size_t d = 0; d < file->study().dumps.size(); ++d, ++number) {
      const StudyDump& dump = file->study().dumps[d];
      for (std::size_t i = 0; i < dump.samples.size(); ++i) {
        const StudySample& sample = dump.samples[i];
        const std::string title = title_of(dump, sample, by);
        auto study = std::ranges::find(studies, title, &ModelStudy::title_);
        if (study == studies.end()) {
          study = studies.emplace(studies.end());
          study->files_ = files;
          study->dump_numbers_ = numbers;
          study->model_ = dump.model;
          study->title_ = title;
        }
        const PlacedSample& place = study->samples_.emplace_back(
            PlacedSample{file, d, i, {*number, sample.name}, new_title(sample, dump, titles[title])});
        study->titles_.emplace(place.key, place.title);
        if (titles_here.insert(title).second) merge_selectors(*file, study->selectors_);
      }
    }
    for (const StudySelector& group : file->study().selectors)
      if (group.name != "exact" && std::ranges::count(labels, group.label) == 0) labels.push_back(group.label);
  }
  std::vector<std::string> paths;
  for (const ResultsFile* file : files) paths.push_back(file->path());
  const std::string sources = sources_in_words(paths, threads);
  for (ModelStudy& study : studies) {
    study.labels_ = labels;
    study.sources_ = sources;
    for (PooledSelector& selector : study.selectors_) study.find_partial_settings(selector);
  }
  return studies;
}

std::vector<SampleCells> of_layer(std::span<const SampleCells> samples, int layer) {
  std::vector<SampleCells> chosen;
  for (const SampleCells& sample : samples)
    if (std::ranges::count(sample.layers, layer) > 0)
      chosen.push_back(chosen_layers(sample, [layer](int l) { return l == layer; }));
  return chosen;
}

std::vector<SampleCells> of_samples(std::vector<SampleCells> cells, const std::set<SampleKey>& samples) {
  if (!samples.empty()) std::erase_if(cells, [&](const SampleCells& c) { return !samples.contains(key_of(c)); });
  return cells;
}

std::vector<int> layers_of(std::span<const SampleCells> samples) {
  std::set<int> layers;
  for (const SampleCells& sample : samples) layers.insert(sample.layers.begin(), sample.layers.end());
  return {layers.begin(), layers.end()};
}

std::vector<double> values_of(std::span<const SampleCells> samples) {
  std::vector<double> values;
  for (const SampleCells& sample : samples)
    std::ranges::copy_if(sample.values, std::back_inserter(values), [](float v) { return !std::isnan(v); });
  return values;
}

}  // namespace attest
