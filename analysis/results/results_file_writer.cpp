// Writing of results files: one row per layer and metric, into data sets that are created for the whole sample when its
// first layer comes.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "analysis/results/model_metric.h"
#include "analysis/results/results_file.h"
#include "dumps/base/error.h"
#include "dumps/format/format_names.h"
#include "dumps/hdf5/writer.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

using hdf5::DatasetLayout;
using hdf5::Extent;
using hdf5::Handle;

/// What xarray is to take for coordinates beside the scales: an attribute of the CF conventions.
const std::string kCoordinates = "setting_labels dense done";

constexpr std::size_t kSyncedAtOnce = std::size_t{64} << 20;

std::vector<std::string> labels_of(MetricAxes axes) {
  const std::span<const std::string_view> names = axis_names(axes);
  return {names.begin(), names.end()};
}

std::vector<double> values_of(const std::vector<Setting>& grid) {
  std::vector<double> values;
  for (const Setting& setting : grid) values.push_back(setting.value);
  return values;
}

void check_labels(const std::vector<StudySelector>& selectors) {
  std::set<std::string_view> seen;
  for (const StudySelector& s : selectors) {
    if (s.label == kScoresGroup || s.label == "layers" || s.label == "query_positions")
      throw UsageError(fmt::format("a selector's label must not be '{}': results files use that name", s.label));
    if (s.label.empty() || s.label == "." || s.label.find('/') != std::string::npos)
      throw UsageError(
          fmt::format("'{}' cannot be a selector's label: it must name a group of a results file", s.label));
    if (!seen.insert(s.label).second) throw UsageError(fmt::format("the label '{}' is given twice", s.label));
  }
}

/// A data set with a row per layer, and which rows have been written.
struct LayerRows {
  explicit LayerRows(const hdf5::RowPlaces& created) : places(created), written(created.num_rows, 0) {}

  hdf5::RowPlaces places;
  std::vector<std::uint8_t> written;  ///< bytes, because several threads write different rows
};

/// The data sets of the metrics of a group, and the scales of its axes by the axes' names.
struct GroupData {
  std::map<std::string, LayerRows, std::less<>> metrics;
  std::map<std::string_view, ModelSum> of_model;  ///< by kModelMetrics' names, whose arrays have a row per query
  std::map<std::string, hdf5::DimensionScale, std::less<>> scales;

  std::vector<hdf5::DimensionScale*> scales_of(const std::vector<std::string>& axes) {
    std::vector<hdf5::DimensionScale*> found;
    for (const std::string& axis : axes) found.push_back(&scales.at(axis));
    return found;
  }
};

/// The data sets of a sample.
struct SampleDatasets {
  const StudyDump* dump;
  const StudySample* sample;
  GroupData scores;
  std::vector<GroupData> selectors;  ///< in the order of Study::selectors, as are the two below
  std::vector<LayerRows> dense, done;
};

}  // namespace

struct ResultsWriter::State {
  State(const std::string& path, const Study& described, const std::string& folder)
      : study(described), file(path, {.folder = folder}) {}

  const Study& study;
  hdf5::FileWriter file;
  std::mutex structure;                   ///< of the data sets below, and `syncing`
  std::atomic<std::size_t> unsynced = 0;  ///< bytes written since the last start_sync()
  std::future<void> syncing;
  std::vector<std::map<std::string, SampleDatasets, std::less<>>> data;  ///< per dump, by the sample's name

  Handle group(const Handle& at, const std::string& name) const {
    return file.create_group(at, name, hdf5::LinkOrder::by_creation);
  }

  /// Writes the values of one axis as a data set. It is a scale, of nothing: axes that have neither a scale nor are one
  /// keep h5netcdf from opening a group.
  template <class T>
  void axis(const Handle& at, const std::string& name, const std::vector<T>& values, const char* label) const {
    file.write_scale<T>(at, name, values, {.axis_labels = {label}});
  }

  /// Writes the scale of an axis, which has the axis's name.
  template <class T>
  void scale(const Handle& at, GroupData& group, const std::string& name, const std::vector<T>& values) const {
    group.scales.emplace(name, file.write_scale<T>(at, name, values, {.axis_labels = {name}}));
  }
  void create_scales(const Handle& at, GroupData& group, const StudyDump& dump, const StudySample& sample) const {
    std::vector<std::int32_t> heads(static_cast<std::size_t>(dump.shape.num_query_heads));
    std::iota(heads.begin(), heads.end(), 0);
    scale(at, group, "layer", sample.layers);
    scale(at, group, "query", sample.query_positions);
    scale(at, group, "head", heads);
  }
  DatasetLayout layout_of(GroupData& group, const char* axis) const {
    return {.allocate_early = true, .axis_labels = {axis}, .axis_scales = group.scales_of({axis})};
  }

  void create() {
    file.write_attribute(file.root(), "format", kStudyFormat);
    file.write_attribute(file.root(), "format_version", kStudyVersion);
    const Handle dumps = group(file.root(), "dumps");
    for (std::size_t d = 0; d < study.dumps.size(); ++d) create_dump(group(dumps, std::to_string(d)), study.dumps[d]);
  }
  void create_dump(const Handle& at, const StudyDump& dump) {
    file.write_attribute(at, "path", dump.path);
    file.write_attribute(at, "model", dump.model);
    file.write_attribute(at, "num_query_heads", dump.shape.num_query_heads);
    file.write_attribute(at, "num_kv_heads", dump.shape.num_kv_heads);
    file.write_attribute(at, "head_dim", dump.shape.head_dim);
    file.write_attribute(at, "value_dim", dump.shape.value_dim);
    if (dump.shape.values_in_keys != 0) file.write_attribute(at, "values_in_keys", dump.shape.values_in_keys);
    file.write_attribute(at, "num_layers", dump.num_layers);
    if (!dump.engine.empty()) file.write_attribute(at, "engine", dump.engine);
    if (!dump.kv_cache.empty()) file.write_attribute(at, "kv_cache", dump.kv_cache);
    const Handle samples = group(at, "samples");
    std::map<std::string, SampleDatasets, std::less<>>& created = data.emplace_back();
    for (const StudySample& sample : dump.samples)
      created.emplace(sample.name, create_sample(group(samples, sample.name), dump, sample));
  }
  SampleDatasets create_sample(const Handle& at, const StudyDump& dump, const StudySample& sample) const {
    SampleDatasets created{.dump = &dump, .sample = &sample, .scores = {}, .selectors = {}, .dense = {}, .done = {}};
    file.write_attribute(at, "task", sample.task);
    file.write_attribute(at, "num_tokens", sample.num_tokens);
    for (const auto& [name, text] : sample.attributes) file.write_attribute(at, name.c_str(), text);
    axis(at, "layers", sample.layers, "layer");
    axis(at, "query_positions", sample.query_positions, "query");
    const Handle scores = group(at, std::string(kScoresGroup));
    create_scales(scores, created.scores, dump, sample);
    if (!sample.margin.empty())
      file.write_dataset<float>(scores, "margin", sample.margin, {sample.margin.size()},
                                layout_of(created.scores, "query"));
    for (const StudySelector& s : study.selectors) {
      GroupData& of = created.selectors.emplace_back();
      const Handle selector = group(at, s.label);
      file.write_attribute(selector, "selector", s.name);
      file.write_attribute(selector, "setting", std::string(name_of(s.kind)));
      file.write_attribute(selector, "options", s.options_json);
      file.write_attribute(selector, "coordinates", kCoordinates);
      create_scales(selector, of, dump, sample);
      const std::vector<double> settings = values_of(s.grid);
      scale(selector, of, "setting", settings);
      scale(selector, of, "lambda", study.lambdas);
      if (!sample.span_tokens.empty()) {
        scale(selector, of, "token", sample.span_tokens);
        file.write_dataset<std::int64_t>(selector, "span_tokens", sample.span_tokens, {sample.span_tokens.size()},
                                         layout_of(of, "token"));
      }
      file.write_dataset<double>(selector, "settings", settings, {settings.size()}, layout_of(of, "setting"));
      file.write_dataset(selector, "setting_labels", s.setting_labels, layout_of(of, "setting"));
      file.write_dataset<double>(selector, "lambdas", study.lambdas, {study.lambdas.size()}, layout_of(of, "lambda"));
      const Extent layers{sample.layers.size()};
      for (auto [flags, name] : {std::pair(&created.dense, "dense"), std::pair(&created.done, "done")})
        flags->emplace_back(
            file.create_rows<std::uint8_t>(selector, name, layers, 0, {"layer"}, of.scales_of({"layer"})));
    }
    return created;
  }

  Extent extent_of(const StudyDump& dump, const StudySample& sample, const StudySelector* selector,
                   MetricAxes axes) const {
    Extent extent;
    for (const std::int64_t size : shape_of(axes, axis_sizes(study, dump, sample, selector)))
      extent.push_back(static_cast<hsize_t>(size));
    return extent;
  }

  /// Creates the data sets of `metrics` that the group does not have yet.
  void create_missing(GroupData& group, const SampleDatasets& of, const StudySelector* selector,
                      const std::vector<MetricValues>& metrics) const {
    std::optional<Handle> at;
    for (const MetricValues& metric : metrics) {
      if (group.metrics.contains(metric.name)) continue;
      if (!at) at = open_group(of, selector);
      const std::vector<std::string> axes = labels_of(metric.axes);
      group.metrics.emplace(
          metric.name, file.create_rows<float>(*at, metric.name, extent_of(*of.dump, *of.sample, selector, metric.axes),
                                               static_cast<float>(kNaN), axes, group.scales_of(axes)));
    }
  }

  /// Of a selector, or of the exact scores if `selector` is null.
  Handle open_group(const SampleDatasets& of, const StudySelector* selector) const {
    return file.open(file.root(), fmt::format("dumps/{}/samples/{}/{}", of.dump - study.dumps.data(), of.sample->name,
                                              selector != nullptr ? selector->label : kScoresGroup));
  }

  void finish_scales() const {
    const auto finish = [&](const Handle& at, const GroupData& group) {
      for (const auto& [name, scale] : group.scales) file.finish_scale(at, name, scale);
    };
    for (const auto& samples : data)
      for (const auto& [name, of] : samples) {
        finish(open_group(of, nullptr), of.scores);
        for (std::size_t i = 0; i < of.selectors.size(); ++i)
          finish(open_group(of, &study.selectors[i]), of.selectors[i]);
      }
  }

  /// Has the disk write what is new, on another thread, because a busy disk makes its callers wait.
  void sync_some() {
    const std::lock_guard lock(structure);
    const bool idle = !syncing.valid() || syncing.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (unsynced < kSyncedAtOnce || !idle) return;
    syncing = std::async(std::launch::async, [this] { file.start_sync(); });
    unsynced = 0;
  }
  void write_row(LayerRows& rows, std::size_t y, std::span<const std::byte> bytes) {
    file.write_row(rows.places, y, bytes);
    rows.written[y] = 1;
    unsynced += bytes.size();
  }
  /// The rows of a layer and their bytes, which are those of `results` and of `flags`.
  using Rows = std::vector<std::pair<LayerRows*, std::span<const std::byte>>>;
  static void add_rows(Rows& rows, GroupData& group, const std::vector<MetricValues>& metrics) {
    for (const MetricValues& metric : metrics)
      rows.emplace_back(&group.metrics.at(metric.name), std::as_bytes(std::span(metric.values)));
  }

  void add(const LayerResults& results) {
    const auto found = data.at(static_cast<std::size_t>(results.dump)).find(results.sample);
    if (found == data[static_cast<std::size_t>(results.dump)].end())
      throw std::logic_error("no sample '" + results.sample + "' in the study");
    SampleDatasets& of = found->second;
    const auto layer = std::ranges::find(of.sample->layers, results.layer);
    if (layer == of.sample->layers.end())
      throw std::logic_error(fmt::format("no layer {} in the study", results.layer));
    if (!results.done) return;
    if (results.selectors.size() != study.selectors.size()) throw std::logic_error("selectors missing from a layer");
    write(of, static_cast<std::size_t>(layer - of.sample->layers.begin()), results);
  }
  void write(SampleDatasets& of, std::size_t y, const LayerResults& results) {
    static constexpr std::byte kFlags[] = {std::byte{0}, std::byte{1}};
    const auto flag = [](bool value) { return std::span(kFlags).subspan(value ? 1 : 0, 1); };
    Rows rows;
    {
      const std::lock_guard lock(structure);
      create_missing(of.scores, of, nullptr, results.scores);
      add_rows(rows, of.scores, results.scores);
      for (std::size_t i = 0; i < study.selectors.size(); ++i) {
        const SelectorLayerResults& selector = results.selectors[i];
        for (const ModelMetric& metric : kModelMetrics) sum_over_layers(metric, of, i, y, selector.metrics);
        create_missing(of.selectors[i], of, &study.selectors[i], selector.metrics);
        add_rows(rows, of.selectors[i], selector.metrics);
        rows.emplace_back(&of.dense[i], flag(selector.dense));
        rows.emplace_back(&of.done[i], flag(true));
      }
    }
    for (const auto& [of_metric, bytes] : rows) write_row(*of_metric, y, bytes);
  }

  /// Adds the layer to a metric of the whole model, and writes that once it has all layers.
  void sum_over_layers(const ModelMetric& metric, SampleDatasets& of, std::size_t i, std::size_t y,
                       const std::vector<MetricValues>& metrics) {
    const auto found = std::ranges::find(metrics, metric.of_heads, &MetricValues::name);
    const std::vector<float>& margin = of.sample->margin;
    if (found == metrics.end() || (metric.sum == ModelMetric::Sum::margin_less && margin.empty())) return;
    GroupData& group = of.selectors[i];
    const std::string name(metric.info.name);
    const std::size_t queries = of.sample->query_positions.size(), settings = study.selectors[i].grid.size();
    const auto [sum, is_new] =
        group.of_model.try_emplace(metric.info.name, metric.sum, of.sample->layers.size(), queries, settings, margin);
    if (is_new) {
      const std::vector<std::string> axes{"query", "setting"};
      group.metrics.emplace(name,
                            file.create_rows<float>(open_group(of, &study.selectors[i]), name, {queries, settings},
                                                    static_cast<float>(kNaN), axes, group.scales_of(axes)));
    }
    if (!sum->second.add(y, found->values)) return;
    const std::vector<float> sums = sum->second.take();
    for (std::size_t n = 0; n < queries; ++n)
      write_row(group.metrics.at(name), n, std::as_bytes(std::span(sums).subspan(n * settings, settings)));
  }

  void fill_missing(LayerRows& rows, std::span<const std::byte> row) {
    for (std::size_t y = 0; y < rows.written.size(); ++y)
      if (rows.written[y] == 0) write_row(rows, y, row);
  }
  /// Writes NaN and 0 for the layers that were not added, and for the metrics that a layer lacks.
  void fill_missing() {
    const std::byte zero{};
    std::vector<float> undefined;
    const auto fill_group = [&](GroupData& group) {
      for (auto& [name, rows] : group.metrics) {
        undefined.resize(rows.places.row_bytes / sizeof(float), static_cast<float>(kNaN));
        fill_missing(rows, std::as_bytes(std::span(undefined)));
      }
    };
    for (auto& samples : data)
      for (auto& [name, of] : samples) {
        fill_group(of.scores);
        for (GroupData& group : of.selectors) fill_group(group);
        for (LayerRows& flags : of.dense) fill_missing(flags, {&zero, 1});
        for (LayerRows& flags : of.done) fill_missing(flags, {&zero, 1});
      }
  }
};

ResultsWriter::ResultsWriter(const std::string& path, const Study& study, const std::string& folder) {
  check_labels(study.selectors);
  state_ = std::make_unique<State>(path, study, folder);
  state_->create();
}

ResultsWriter::~ResultsWriter() = default;

void ResultsWriter::add(const LayerResults& layer) {
  state_->add(layer);
  state_->sync_some();
}

void ResultsWriter::finish(const std::string& manifest_json) {
  if (state_->syncing.valid()) state_->syncing.wait();
  state_->fill_missing();
  state_->finish_scales();
  state_->file.write_attribute(state_->file.root(), "manifest", manifest_json);
  state_->file.finish();
}

}  // namespace attest
