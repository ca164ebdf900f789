// The prompts of a validation: samples of one model, studied alike, each once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/results/results_file.h"
#include "analysis/statistics/sample_cells.h"
#include "analysis/study/study.h"
#include "analysis/validation/candidates.h"

namespace attest {

/// One prompt: where its cells are in the results, or its answers alone.
struct Prompt {
  const ResultsFile* file = nullptr;               ///< null: there are no cells
  std::size_t dump = 0, sample = 0, selector = 0;  ///< in the file's study
  std::string name, task;
  std::int64_t num_tokens = 0;
  std::string origin;  ///< content hash of the dump, else its path; of answers alone their file
  /// Indices of the layers in scope among those of the sample; fewer than PromptSet::layers where the prompt was not
  /// studied in all of them.
  std::vector<std::size_t> rows;
  /// Where the cells of PromptSet::candidates are in the file; empty: the settings are those of `selector`.
  std::vector<LabelledSetting> columns = {};
  /// [setting of the grid] 1 right, 0 wrong, NaN if it does not count (dense attention answers wrong, or no answer).
  /// Empty without answers.
  std::vector<double> answers = {};
  std::vector<double> kept = {};  ///< [setting of the grid] share of the tokens; of answers alone, which have no cells

  /// Of the file that has it.
  const std::string& path() const { return file != nullptr ? file->path() : origin; }
  const StudySample& of_study() const { return file->study().dumps[dump].samples[sample]; }
};

/// Which part of the results is judged.
struct PromptScope {
  std::string model = {};     ///< empty: the only one
  std::string selector = {};  ///< a label, or the name of a selector that only one label has; empty: the only one
  std::vector<std::pair<int, int>> layers = {};  ///< inclusive ranges; empty: all
  /// "task" or another text attribute of samples: prompts with the same value are one unit of evidence. Empty: each is.
  std::string cluster = {};
  /// LABEL or LABEL@SETTING, the safest first: settings are these instead of those of `selector`.
  std::vector<std::string> candidates = {};
};

struct PromptSet {
  std::string model;
  AttentionShape shape;
  int num_layers = 0;                ///< of the model
  std::vector<int> layers;           ///< in scope, ascending
  bool all_layers = true;            ///< the scope is every layer of the model
  std::int64_t in_fewer_layers = 0;  ///< prompts that were not studied in all of `layers`: judged in those they have
  /// With its grid, the same in all files. Of candidates it stands for all: its label names them, its grid has their
  /// places from 1 and its setting_labels their texts.
  StudySelector selector;
  std::vector<Candidate> candidates = {};
  std::vector<std::size_t> settings;  ///< indices into the grid, the safest setting first
  std::vector<Prompt> prompts;        ///< in an order that the order of the files does not change
  std::string cluster_key = {};       ///< PromptScope::cluster
  std::vector<std::size_t> clusters;  ///< [prompts] numbers from 0; each prompt its own without a key

  /// Whether there is anything to choose: settings of a selector, or candidates.
  bool has_choice() const { return selector.kind != SettingKind::none || !candidates.empty(); }
  std::size_t num_clusters() const;

  std::int64_t shortest() const;
  std::int64_t longest() const;
};

/// Contexts whose lengths differ by no more than this are as long as each other: a dump has the first tokens of an
/// answer, too.
inline constexpr std::int64_t kAnswerTokens = 16;

/// Whether contexts of so many tokens are as long as some from `shortest` to `longest`.
inline bool is_length_among(std::int64_t tokens, std::int64_t shortest, std::int64_t longest) {
  return tokens >= shortest - kAnswerTokens && tokens <= longest + kAnswerTokens;
}

/// The model that is judged: the one asked for, or the only one. Throws UsageError if there are several or it is not
/// among them.
std::string judged_model(std::span<const std::string> found, const std::string& asked);

/// The files must outlive the set. Throws UsageError if the scope names what is not there, if the results are of
/// several models or of studies that differ (options, grid, layers), or if two of them hold one prompt, which would
/// count twice; InputError if a layer in scope was left out of a study.
PromptSet gather_prompts(ResultsFiles files, const PromptScope& scope);

/// Throws UsageError: a sample of the file lacks the attribute `key`.
[[noreturn]] void refuse_cluster(const std::string& path, const std::string& sample, const std::string& key);

/// Fills in PromptSet::clusters. Throws UsageError if a prompt lacks the attribute `key`.
void make_clusters(PromptSet& set, const std::string& key);

/// The setting of the set's selector that was typed like this, as an index into its grid. Throws UsageError if there is
/// none. `place`: where it was typed; empty: the option of its kind, "--delta".
std::size_t find_setting(const PromptSet& set, std::string_view typed, std::string_view place = {});

/// Indices into `grid`, the setting that keeps most first: the largest delta, budget or p, the smallest factor. Budgets
/// in per cent are of `longest` tokens.
std::vector<std::size_t> safest_first(const StudySelector& selector, std::int64_t longest);

}  // namespace attest
