// The results of one model (or of one of its tasks or lengths), from which its figures are made. Several files are
// pooled cell by cell; models are never pooled.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/statistics/aggregate.h"
#include "analysis/study/selector_options.h"
#include "analysis/study/study.h"
#include "dumps/base/enum_names.h"
#include "plots/style.h"

namespace attest {

/// The data of one curve: a selector of the study, or the selectors of one label in several files.
struct PooledSelector {
  StudySelector group;
  /// Settings (indices into the grid) that some of its prompts or layers lack, because they are of one file of several.
  /// Cells of these and of other settings are of different prompts: nothing may be concluded from their difference.
  std::set<std::size_t> partial = {};

  bool of_all_samples(std::size_t setting) const { return !partial.contains(setting); }

  /// Every option with its value as text: "union", "128".
  SelectorOptions options() const;
  /// The value of one option; empty when the selector has no such option.
  std::string option(std::string_view name) const;
  bool is_oracle() const;  ///< its rule reads exact scores, as no real method can
  bool has_paper() const;  ///< no oracle, and no method of the user's own
};

/// A sample's dump, numbered over all files, and its name, which samples of other dumps may share. A prompt has one
/// key: a dump that several files studied has the number of the first, unless they studied other queries of a sample.
using SampleKey = std::pair<int, std::string>;

/// One sample of a study: where it is in the results. Several files may have one of the same key.
struct PlacedSample {
  const ResultsFile* file = nullptr;
  std::size_t dump = 0, sample = 0;  ///< in the file's study
  SampleKey key = {};
  std::string title = {};  ///< unlike those of all others

  const StudyDump& study_dump() const { return file->study().dumps[dump]; }
  const StudySample& study_sample() const { return study_dump().samples[sample]; }
  bool operator==(const PlacedSample&) const = default;
};

/// Of the cells of a ModelStudy.
inline SampleKey key_of(const SampleCells& cells) { return {cells.dump, cells.sample}; }

/// Whether the cells of two metrics belong together one by one.
inline bool same_cells(const SampleCells& a, const SampleCells& b) {
  return key_of(a) == key_of(b) && a.layers == b.layers && a.values.size() == b.values.size();
}

/// The samples that are pooled: all of a model, or those of one task or one length (rounded to a power of two) of it.
enum class PoolBy : std::uint8_t { model, task, length };
inline constexpr EnumName<PoolBy> kPoolNames[] = {
    {PoolBy::model, "model"}, {PoolBy::task, "task"}, {PoolBy::length, "length"}};

class ModelStudy {
 public:
  const std::string& model() const { return model_; }
  /// The model, with its task or length if it is pooled by that.
  const std::string& title() const { return title_; }
  /// A prompt that is in several files is one sample.
  std::int64_t num_samples() const { return std::ssize(titles_); }
  /// The samples, ascending by name, then by dump.
  std::vector<SampleKey> sample_keys() const;
  /// The sample's name, unlike those of the other samples: "a", "a of second.h5".
  const std::string& sample_title(const SampleKey& sample) const { return titles_.at(sample); }

  /// "Llama-3.1-8B, 12 samples, results r.h5 (0123456789abcdef)", for captions. Says which selectors have settings that
  /// some samples lack.
  std::string source() const;

  ResultsFiles files() const { return files_; }
  /// The samples of each file, in the order of the files.
  const std::vector<PlacedSample>& samples() const { return samples_; }

  /// The look of a selector, the same in every figure of all studies that were split together.
  LineStyle style(const PooledSelector& selector) const;

  /// The selectors in the order in which they appear in the files.
  const std::vector<PooledSelector>& selectors() const { return selectors_; }

  /// Whether the two were studied on the same layers of the same prompts: pooled files need not share them.
  bool have_same_prompts(const PooledSelector& a, const PooledSelector& b) const;

  /// The samples of which both were studied, on the same layers.
  std::set<SampleKey> samples_of_both(const PooledSelector& a, const PooledSelector& b) const;

  /// Layers that the option dense_layers made exact for one of `labels`, in any file.
  std::set<int> dense_layers(const std::vector<std::string>& labels) const;

  /// The cells of a metric at every setting of the selector's group: [S], or [1] for a metric without settings. A
  /// metric that the results lack has [S] empty lists, and no list is ever missing. The layers `except` are left out. A
  /// list has every sample once; a layer that several files have is the first file's.
  std::vector<std::vector<SampleCells>> cells(const PooledSelector& selector, std::string_view metric,
                                              const std::set<int>& except = {}) const;
  /// The cells of a metric of the exact scores, in the layers that were computed for the selector, without `except`.
  std::vector<SampleCells> score_cells(const PooledSelector& selector, std::string_view metric,
                                       const std::set<int>& except = {}) const;

 private:
  friend std::vector<ModelStudy> split_studies(ResultsFiles files, int threads, PoolBy by);

  /// The layers that were studied with a selector (at one setting, if it is given).
  using StudiedLayers = std::map<SampleKey, std::set<int>>;
  StudiedLayers studied_layers(const PooledSelector& selector, const std::string* setting = nullptr) const;
  /// Sets PooledSelector::partial.
  void find_partial_settings(PooledSelector& selector) const;

  /// The samples of this study, each once, without the layers `except`.
  std::vector<SampleCells> mine(const std::vector<SampleCells>& gathered, const std::set<int>& except) const;

  ResultsFiles files_;
  std::string model_, title_;
  std::vector<int> dump_numbers_;  ///< that of SampleKey, for each dump over all files
  std::vector<PlacedSample> samples_;
  std::map<SampleKey, std::string> titles_;
  std::vector<PooledSelector> selectors_;
  std::vector<std::string> labels_;  ///< of all studies that were split together
  std::string sources_;              ///< file names and hashes
};

/// The cells of a metric of the exact scores, of every sample once, whichever selectors its file has.
std::vector<SampleCells> score_cells_of_all(const ModelStudy& study, std::string_view metric);

/// "a.h5 (0123456789abcdef), b.h5 (...)": names and content hashes of files, for captions. Reads all of them.
std::string sources_in_words(const std::vector<std::string>& paths, int threads);

/// A length rounded to a power of two, by which samples are grouped. Lengths below 1, as a damaged file may have, stay.
std::int64_t rounded_length(std::int64_t tokens);

/// One study per model (and task or length), in the order of the files. The files must outlive it. Reads all of them,
/// for their hashes.
/// Throws UsageError when a label has different options in two files, or when two files hold the same cells.
std::vector<ModelStudy> split_studies(ResultsFiles files, int threads, PoolBy by = PoolBy::model);

/// Only the cells of layer number `layer`.
std::vector<SampleCells> of_layer(std::span<const SampleCells> samples, int layer);

/// Only the cells of `samples`; all of them without any.
std::vector<SampleCells> of_samples(std::vector<SampleCells> cells, const std::set<SampleKey>& samples);

/// The layer numbers that occur, ascending.
std::vector<int> layers_of(std::span<const SampleCells> samples);

/// Every value that is not NaN.
std::vector<double> values_of(std::span<const SampleCells> samples);

}  // namespace attest
