// Study results on disk (format: results-format.md): one writer, one reader. No HDF5 in this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/results/axes.h"
#include "analysis/results/layer_results.h"
#include "analysis/study/study.h"

namespace attest {

/// The group of the metrics of the exact scores alone, beside the selectors' labels.
inline constexpr std::string_view kScoresGroup = "scores";

/// Writes one results file as a stream of layers: memory does not grow with the study. The file appears under its name
/// only in finish(); without it the destructor removes what was written. Throws OutputError when it cannot be written.
class ResultsWriter {
 public:
  /// `path` is replaced by finish() if it exists then; until then the file is in `folder`, which must be in the same
  /// file system (empty: beside `path`). `study` outlives the writer. Throws UsageError when a label may not name a
  /// group.
  ResultsWriter(const std::string& path, const Study& study, const std::string& folder = "");
  ~ResultsWriter();
  ResultsWriter(const ResultsWriter&) = delete;
  ResultsWriter& operator=(const ResultsWriter&) = delete;

  /// In any order; cells of layers that are never added are NaN, and their `done` is 0.
  /// Throws std::logic_error when `layer` does not belong to the study or a metric has the wrong size.
  void add(const LayerResults& layer);

  /// Completes the file with its manifest and gives it its name.
  void finish(const std::string& manifest_json);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One metric of one sample, all its layers: row-major float32, NaN where not defined.
struct MetricArray {
  MetricAxes axes = MetricAxes::query_head;
  std::vector<std::int64_t> shape;  ///< [Y, N, Hq], [Y, N, Hq, S], [Y, N, Hq, M] or [Y, N, S], as `axes` says
  std::vector<float> values;

  std::int64_t num_layers() const { return shape[0]; }
};

/// Reads a results file. Opening reads all attributes and axes and checks the shape of every metric; values are read on
/// demand. Files are untrusted: HDF5 runs in a guarded child, and whatever is wrong becomes an InputError of one
/// sentence. Thread-safe. `dump` and `sample` index study().dumps and its samples, `selector` indexes
/// study().selectors; std::out_of_range if not.
class ResultsFile {
 public:
  explicit ResultsFile(const std::string& path);
  ~ResultsFile();
  ResultsFile(ResultsFile&&) noexcept;
  ResultsFile& operator=(ResultsFile&&) noexcept;

  const std::string& path() const;

  /// Dumps, selectors and lambdas; selectors without code, in the order in which they were given when the file was
  /// written by ResultsWriter, else by label. salient_delta is NaN where the manifest does not tell it.
  const Study& study() const;

  /// JSON text: how the file was made.
  const std::string& manifest() const;

  /// Index of the selector of that label.
  std::optional<std::size_t> find_selector(std::string_view label) const;

  /// The metrics that a sample has for a selector, sorted by name; a selector that never defines one may not have it.
  std::vector<std::string> metrics(std::size_t dump, std::size_t sample, std::size_t selector) const;
  std::vector<std::string> score_metrics(std::size_t dump, std::size_t sample) const;

  /// Empty when the sample does not have the metric.
  std::optional<MetricArray> read(std::size_t dump, std::size_t sample, std::size_t selector,
                                  std::string_view metric) const;
  std::optional<MetricArray> read_scores(std::size_t dump, std::size_t sample, std::string_view metric) const;

  /// [Y], 1 where dense_layers made the layer exact.
  const std::vector<std::uint8_t>& dense(std::size_t dump, std::size_t sample, std::size_t selector) const;

  /// [Y], 1 where the layer was computed, 0 where it was left out.
  const std::vector<std::uint8_t>& done(std::size_t dump, std::size_t sample, std::size_t selector) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attest
