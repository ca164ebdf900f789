// Writer and reader of results files (format: analysis/results/README.md). This header does not need HDF5.
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

/// Name of the group that holds the metrics of the exact scores. It is a sibling of the selectors' groups.
inline constexpr std::string_view kScoresGroup = "scores";

/// Writes a results file layer by layer; memory does not grow with the study. finish() gives the file its name; without
/// finish() the destructor removes it. Throws OutputError if the file cannot be written.
class ResultsWriter {
 public:
  /// finish() replaces an existing `path`. Before that the file is in `folder`, which must be on the same file system
  /// (empty: the folder of `path`). `study` must outlive the writer. Throws UsageError if a label cannot name a group.
  ResultsWriter(const std::string& path, const Study& study, const std::string& folder = "");
  ~ResultsWriter();
  ResultsWriter(const ResultsWriter&) = delete;
  ResultsWriter& operator=(const ResultsWriter&) = delete;

  /// Thread-safe, and layers may come in any order, each once. Cells of layers that are never added are NaN, and their
  /// `done` is 0. Throws std::logic_error if `layer` does not belong to the study or a metric has the wrong size.
  void add(const LayerResults& layer);

  /// Writes the manifest and renames the file to `path`.
  void finish(const std::string& manifest_json);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One metric of all layers of one sample: row-major float32, NaN where not defined.
struct MetricArray {
  MetricAxes axes = MetricAxes::query_head;
  /// [Y, N, Hq], [Y, N, Hq, S], [Y, N, Hq, M], [Y, N, S] or [Y, N, S, T], depending on `axes`.
  std::vector<std::int64_t> shape;
  std::vector<float> values;

  std::int64_t num_layers() const { return shape[0]; }
};

/// Which cells ResultsFile::read() accepts.
enum class ReadCells : std::uint8_t {
  in_range,  ///< those that their metric allows (MetricRange); NaN always
  all,       ///< for a check that reports all that are not
};

/// Reads a results file. The constructor reads all attributes and axes and checks the shape of every metric; values are
/// read on demand. Files are untrusted: HDF5 runs in a guarded child process, and every defect is reported as an
/// InputError of one sentence. Thread-safe. `dump` and `sample` index study().dumps and its samples, `selector` indexes
/// study().selectors; std::out_of_range if an index is too large.
class ResultsFile {
 public:
  explicit ResultsFile(const std::string& path);
  ~ResultsFile();
  ResultsFile(ResultsFile&&) noexcept;
  ResultsFile& operator=(ResultsFile&&) noexcept;

  const std::string& path() const;

  /// Dumps, selectors and lambdas. StudySelector::selector is null. Selectors are in the order given if ResultsWriter
  /// wrote the file, else sorted by label. salient_delta is NaN if the manifest lacks it.
  const Study& study() const;

  /// The manifest as JSON text (keys: analysis/results/README.md, "The manifest").
  const std::string& manifest() const;

  /// Index of the selector with that label; empty if there is none.
  std::optional<std::size_t> find_selector(std::string_view label) const;

  /// The metrics that a sample has for a selector, sorted by name. Metrics that the selector never defines may be
  /// absent.
  std::vector<std::string> metrics(std::size_t dump, std::size_t sample, std::size_t selector) const;
  std::vector<std::string> score_metrics(std::size_t dump, std::size_t sample) const;

  /// The axes of one of these metrics, of the exact scores if `selector` is empty.
  MetricAxes axes(std::size_t dump, std::size_t sample, std::optional<std::size_t> selector,
                  const std::string& metric) const;

  /// Empty if the sample does not have the metric.
  std::optional<MetricArray> read(std::size_t dump, std::size_t sample, std::size_t selector, std::string_view metric,
                                  ReadCells accepted = ReadCells::in_range) const;
  std::optional<MetricArray> read_scores(std::size_t dump, std::size_t sample, std::string_view metric,
                                         ReadCells accepted = ReadCells::in_range) const;

  /// [Y], 1 where the selector was exact in the whole layer (dense_layers, settings_file).
  const std::vector<std::uint8_t>& dense(std::size_t dump, std::size_t sample, std::size_t selector) const;

  /// [Y], 1 where the layer was computed, 0 where it was left out.
  const std::vector<std::uint8_t>& done(std::size_t dump, std::size_t sample, std::size_t selector) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attest
