// Writing of results files: one hyperslab per layer and metric, into data sets that are created with the fill value
// NaN.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

#include "analysis/results/results_file.h"
#include "dumps/base/error.h"
#include "dumps/hdf5/writer.h"

namespace attest {
namespace {

using hdf5::Extent;
using hdf5::Handle;

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

}  // namespace

struct ResultsWriter::State {
  State(const std::string& path, const Study& described, const std::string& folder)
      : study(described), file(path, {.folder = folder}) {}

  const Study& study;
  hdf5::FileWriter file;

  Handle group(const Handle& at, const std::string& name) const {
    return file.create_group(at, name, hdf5::LinkOrder::by_creation);
  }

  /// Writes the values of one axis as a data set.
  template <class T>
  void axis(const Handle& at, const std::string& name, const std::vector<T>& values, const char* label) const {
    file.write_dataset<T>(at, name, values, {values.size()}, {.allocate_early = true, .axis_labels = {label}});
  }

  /// Creates a data set with a 0 for each layer.
  void flags(const Handle& at, const std::string& name, std::size_t num_layers) const {
    const std::uint8_t no = 0;
    file.create_dataset<std::uint8_t>(at, name, {num_layers},
                                      {.fill = &no, .allocate_early = true, .axis_labels = {"layer"}});
  }

  void create() const {
    file.write_attribute(file.root(), "format", "attention-study");
    file.write_attribute(file.root(), "format_version", 1);
    const Handle dumps = group(file.root(), "dumps");
    for (std::size_t d = 0; d < study.dumps.size(); ++d) create_dump(group(dumps, std::to_string(d)), study.dumps[d]);
  }
  void create_dump(const Handle& at, const StudyDump& dump) const {
    file.write_attribute(at, "path", dump.path);
    file.write_attribute(at, "model", dump.model);
    file.write_attribute(at, "num_query_heads", dump.shape.num_query_heads);
    file.write_attribute(at, "num_kv_heads", dump.shape.num_kv_heads);
    file.write_attribute(at, "head_dim", dump.shape.head_dim);
    file.write_attribute(at, "value_dim", dump.shape.value_dim);
    file.write_attribute(at, "num_layers", dump.num_layers);
    const Handle samples = group(at, "samples");
    for (const StudySample& sample : dump.samples) create_sample(group(samples, sample.name), sample);
  }
  void create_sample(const Handle& at, const StudySample& sample) const {
    file.write_attribute(at, "task", sample.task);
    file.write_attribute(at, "num_tokens", sample.num_tokens);
    axis(at, "layers", sample.layers, "layer");
    axis(at, "query_positions", sample.query_positions, "query");
    group(at, std::string(kScoresGroup));
    for (const StudySelector& s : study.selectors) {
      const Handle selector = group(at, s.label);
      file.write_attribute(selector, "selector", s.name);
      file.write_attribute(selector, "setting", std::string(name_of(s.kind)));
      file.write_attribute(selector, "options", s.options_json);
      axis(selector, "settings", values_of(s.grid), "setting");
      file.write_dataset(selector, "setting_labels", s.setting_labels,
                         {.allocate_early = true, .axis_labels = {"setting"}});
      axis(selector, "lambdas", study.lambdas, "lambda");
      flags(selector, "dense", sample.layers.size());
      flags(selector, "done", sample.layers.size());
    }
  }

  Extent extent_of(const StudyDump& dump, const StudySample& sample, const StudySelector* selector,
                   MetricAxes axes) const {
    const AxisSizes sizes{.layers = static_cast<std::int64_t>(sample.layers.size()),
                          .queries = static_cast<std::int64_t>(sample.query_positions.size()),
                          .heads = dump.shape.num_query_heads,
                          .settings = selector != nullptr ? static_cast<std::int64_t>(selector->grid.size()) : 0,
                          .lambdas = static_cast<std::int64_t>(study.lambdas.size())};
    Extent extent;
    for (const std::int64_t size : shape_of(axes, sizes)) extent.push_back(static_cast<hsize_t>(size));
    return extent;
  }

  /// Writes row `y` of a data set whose first axis is the layer.
  template <class T>
  void write_row(const Handle& data, const Extent& extent, std::size_t y, std::span<const T> values) const {
    Extent start(extent.size(), 0), count = extent;
    start[0] = y;
    count[0] = 1;
    file.write_block<T>(data, start, count, values);
  }
  void write_metric(const Handle& at, const Extent& extent, std::size_t y, const MetricValues& metric) const {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Handle data =
        file.contains(at, metric.name)
            ? file.open(at, metric.name)
            : file.create_dataset<float>(at, metric.name, extent,
                                         {.fill = &nan, .allocate_early = true, .axis_labels = labels_of(metric.axes)});
    write_row<float>(data, extent, y, metric.values);
  }
  void write_flag(const Handle& at, const char* name, std::size_t num_layers, std::size_t y, bool value) const {
    const std::uint8_t flag = value;
    write_row<std::uint8_t>(file.open(at, name), {num_layers}, y, {&flag, 1});
  }

  void add(const LayerResults& results) const {
    const StudyDump& dump = study.dumps.at(static_cast<std::size_t>(results.dump));
    const auto sample = std::find_if(dump.samples.begin(), dump.samples.end(),
                                     [&](const StudySample& s) { return s.name == results.sample; });
    if (sample == dump.samples.end()) throw std::logic_error("no sample '" + results.sample + "' in the study");
    const auto layer = std::find(sample->layers.begin(), sample->layers.end(), results.layer);
    if (layer == sample->layers.end()) throw std::logic_error(fmt::format("no layer {} in the study", results.layer));
    if (!results.done) return;
    if (results.selectors.size() != study.selectors.size()) throw std::logic_error("selectors missing from a layer");

    const auto y = static_cast<std::size_t>(layer - sample->layers.begin());
    const Handle at = file.open(file.open(file.root(), fmt::format("dumps/{}/samples", results.dump)), results.sample);
    const Handle scores = file.open(at, std::string(kScoresGroup));
    for (const MetricValues& metric : results.scores)
      write_metric(scores, extent_of(dump, *sample, nullptr, metric.axes), y, metric);
    for (std::size_t i = 0; i < study.selectors.size(); ++i) {
      const StudySelector& selector = study.selectors[i];
      const Handle group = file.open(at, selector.label);
      for (const MetricValues& metric : results.selectors[i].metrics)
        write_metric(group, extent_of(dump, *sample, &selector, metric.axes), y, metric);
      write_flag(group, "dense", sample->layers.size(), y, results.selectors[i].dense);
      write_flag(group, "done", sample->layers.size(), y, true);
    }
  }
};

ResultsWriter::ResultsWriter(const std::string& path, const Study& study, const std::string& folder) {
  check_labels(study.selectors);
  state_ = std::make_unique<State>(path, study, folder);
  state_->create();
}

ResultsWriter::~ResultsWriter() = default;

void ResultsWriter::add(const LayerResults& layer) { state_->add(layer); }

void ResultsWriter::finish(const std::string& manifest_json) {
  state_->file.write_attribute(state_->file.root(), "manifest", manifest_json);
  state_->file.finish();
}

}  // namespace attest
