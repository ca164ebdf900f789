// A recommendation file that is read back, to see whether it still fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dumps/base/json.h"
#include "experiments/validation/judge_results.h"
#include "kernels/base/setting.h"
#include "kernels/selectors/options.h"
#include "kernels/selectors/settings_file.h"

namespace attest {

struct Recommended {
  std::string path, model;
  /// The shape of the model that certified; all 0 in files of earlier programs.
  struct ModelShape {
    int layers = 0, query_heads = 0, kv_heads = 0;
    /// That of a dump's info, or of a dump of a study.
    static ModelShape of(const auto& dump) {
      return {dump.num_layers, dump.shape.num_query_heads, dump.shape.num_kv_heads};
    }
    bool operator==(const ModelShape&) const = default;
  };
  ModelShape shape = {};
  std::string selector = {};  ///< registered name; empty: of candidates
  Json options = {};          ///< of the selector, each with its value
  /// A candidate that a layer or KV head has, as it stands in the file.
  struct RecommendedCandidate {
    std::string text, label, selector, setting;  ///< setting: empty if the selector has none
    Json options;
  };
  std::vector<RecommendedCandidate> candidates = {};
  std::vector<Target> targets;
  Guarantee guarantee;
  std::string cluster;      ///< PromptScope::cluster
  std::vector<int> layers;  ///< judged ones; empty: all
  PromptNumbers certified;  ///< the numbers of the prompts that certified
  /// The tasks and ranges of those prompts, as far as the file has them.
  std::vector<std::string> tasks = {};
  std::optional<std::pair<std::int64_t, std::int64_t>> lengths = {}, queries = {};  ///< tokens, judged positions: range
  std::vector<std::string> hashes;       ///< of the results that it was made from, and of their dumps
  Json fallback, units;                  ///< the members `default` and `layers`
  std::vector<std::string> settings;     ///< all in them but "dense", each once, as typed
  SettingKind kind = SettingKind::none;  ///< of those numbers
  SettingsFile units_file = {};          ///< path, and which layers and KV heads are in them; their values are 0
};

/// Throws InputError if the file is no recommendation, or one of an earlier program without the numbers that certified.
Recommended read_recommended(const std::string& path);

/// Throws UsageError if the file with this content hash helped to certify.
void refuse_certifying(const Recommended& recommended, const std::string& hash, const std::string& path);

/// Throws UsageError if the recommendation is for another model than that of `path`.
void check_model(const Recommended& recommended, const std::string& model, const std::string& path);

/// Throws UsageError if the recommendation is for a model of another shape, InputError if it names a layer or a KV head
/// that a model of this shape does not have. `holder`: the dump or results file of the model.
void check_units(const Recommended& recommended, const Recommended::ModelShape& shape, std::string_view holder);

/// Throws InputError if the settings are none of the selectors with those options, as a study would find.
void check_studied(const Recommended& recommended);

/// The selectors with all their options, and the request of a study of dumps at the recommended settings alone.
std::vector<SelectorSpec> selectors_of(const Recommended& recommended);
JudgementOptions study_request(const Recommended& recommended);

/// Fills in what `file` has for what is recommended, by name and options: the label of the selector, or the candidates.
/// Options that one of the programs did not know yet have their defaults. Throws UsageError if it lacks them.
void find_recommended(const Recommended& recommended, const ResultsFile& file, PromptScope& scope);

/// The recommended setting of every query head: [PromptSet::layers][query head], as indices into the set's grid. Throws
/// UsageError if one of them was not studied.
std::vector<std::vector<std::size_t>> recommended_settings(const Recommended& recommended, const PromptSet& set);

/// The numbers of the set's prompts at those settings, [prompt][target].
PromptNumbers numbers_at(const PromptSet& set, std::span<const Target> targets,
                         const std::vector<std::vector<std::size_t>>& settings, int threads);

}  // namespace attest
