// The results of one model, from which its figures are made. Several files are pooled cell by cell; models are never
// pooled.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/statistics/aggregate.h"
#include "analysis/study/study.h"

namespace attest {

/// The data of one curve: a selector of the study, or the selectors of one label in several files.
struct PooledSelector {
  StudySelector group;

  /// An option as text ("union", "128"); empty when the selector has no such option.
  std::string option(std::string_view name) const;
  bool is_oracle() const;  ///< its rule reads exact scores, as no real method can
};

class ModelStudy {
 public:
  const std::string& model() const { return model_; }
  int num_samples() const { return num_samples_; }

  /// In the order in which they appear in the files.
  const std::vector<PooledSelector>& selectors() const { return selectors_; }

  /// Layers that the option dense_layers made exact for one of `labels`, in any file.
  std::set<int> dense_layers(const std::vector<std::string>& labels) const;

  /// The cells of a metric at every setting of the selector's group: [S], or [1] for a metric without settings. The
  /// layers `except` are left out.
  std::vector<std::vector<SampleCells>> cells(const PooledSelector& selector, std::string_view metric,
                                              const std::set<int>& except = {}) const;

 private:
  friend std::vector<ModelStudy> split_by_model(ResultsFiles files);

  ResultsFiles files_;
  std::string model_;
  int num_samples_ = 0;
  std::set<int> dumps_;  ///< dumps of this model, numbered over all files
  std::vector<PooledSelector> selectors_;
};

/// One study per model, in the order of the files. The files must outlive it.
/// Throws UsageError when a label has different options in two files, or when two files hold the same cells.
std::vector<ModelStudy> split_by_model(ResultsFiles files);

/// Only the cells of layer number `layer`.
std::vector<SampleCells> of_layer(std::span<const SampleCells> samples, int layer);

/// The layer numbers that occur, ascending.
std::vector<int> layers_of(std::span<const SampleCells> samples);

/// Every value that is not NaN.
std::vector<double> values_of(std::span<const SampleCells> samples);

}  // namespace attest
