// Writing of results files: one hyperslab per layer and metric into data sets that start as NaN.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <stdexcept>

#include "analysis/results/results_file.h"
#include "dumps/base/error.h"
#include "dumps/base/file_descriptor.h"
#include "dumps/hdf5/handle.h"

namespace attest {
namespace {

using hdf5::Handle;
using Extent = std::vector<hsize_t>;

hsize_t size_of_axis(std::size_t n) { return static_cast<hsize_t>(n); }

std::vector<const char*> labels_of(MetricAxes axes) {
  std::vector<const char*> labels;
  for (const std::string_view name : axis_names(axes)) labels.push_back(name.data());  // literals, ended by zero
  return labels;
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
  std::string path, temporary;
  Study study;
  Handle file, string_type;
  bool complete = false;

  /// Passes a result of HDF5 on; throws OutputError with its error text when it reports a failure.
  template <class Result>
  Result checked(Result result) const {
    if (result < 0) fail(hdf5::take_error_text());
    return result;
  }
  [[noreturn]] void fail(const std::string& reason) const {
    throw OutputError(fmt::format("cannot write '{}': {}", path, reason.empty() ? "unknown reason" : reason));
  }
  Handle owned(hid_t id) const { return Handle(checked(id)); }

  void write_attribute(const Handle& at, const char* name, hid_t type, const Handle& space, const void* value) const {
    const Handle attribute = owned(H5Acreate2(at.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT));
    checked(H5Awrite(attribute.get(), type, value));
  }
  void attribute(const Handle& at, const char* name, const std::string& text) const {
    const char* pointer = text.c_str();
    write_attribute(at, name, string_type.get(), owned(H5Screate(H5S_SCALAR)), &pointer);
  }
  void attribute(const Handle& at, const char* name, std::int64_t value) const {
    write_attribute(at, name, H5T_NATIVE_INT64, owned(H5Screate(H5S_SCALAR)), &value);
  }

  Handle group(const Handle& at, const std::string& name) const {
    const Handle properties = owned(H5Pcreate(H5P_GROUP_CREATE));
    checked(H5Pset_link_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED));
    return owned(H5Gcreate2(at.get(), name.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
  }
  Handle open_group(const std::string& name) const { return owned(H5Gopen2(file.get(), name.c_str(), H5P_DEFAULT)); }

  /// A contiguous data set of `fill`, or without one, whose axes carry `labels` (the attribute that H5DSset_label
  /// writes).
  Handle data_set(const Handle& at, const std::string& name, hid_t type, const Extent& extent,
                  const std::vector<const char*>& labels, const void* fill = nullptr) const {
    const Handle space = owned(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
    const Handle properties = owned(H5Pcreate(H5P_DATASET_CREATE));
    checked(H5Pset_obj_track_times(properties.get(), false));
    checked(H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY));
    if (fill != nullptr) checked(H5Pset_fill_value(properties.get(), type, fill));
    Handle data =
        owned(H5Dcreate2(at.get(), name.c_str(), type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
    const hsize_t rank = labels.size();
    write_attribute(data, "DIMENSION_LABELS", string_type.get(), owned(H5Screate_simple(1, &rank, nullptr)),
                    labels.data());
    return data;
  }
  template <class T>
  void vector(const Handle& at, const std::string& name, hid_t stored, hid_t native, const std::vector<T>& values,
              const char* label) const {
    const Handle data = data_set(at, name, stored, {size_of_axis(values.size())}, {label});
    if (!values.empty()) checked(H5Dwrite(data.get(), native, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  }

  void create() {
    const hdf5::Lock lock;
    file = owned(H5Fcreate(temporary.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    string_type = owned(H5Tcopy(H5T_C_S1));
    checked(H5Tset_size(string_type.get(), H5T_VARIABLE));
    checked(H5Tset_cset(string_type.get(), H5T_CSET_UTF8));
    attribute(file, "format", std::string("attention-study"));
    attribute(file, "format_version", 1);
    const Handle dumps = group(file, "dumps");
    for (std::size_t d = 0; d < study.dumps.size(); ++d) create_dump(group(dumps, std::to_string(d)), study.dumps[d]);
  }
  void create_dump(const Handle& at, const StudyDump& dump) const {
    attribute(at, "path", dump.path);
    attribute(at, "model", dump.model);
    attribute(at, "num_query_heads", dump.shape.num_query_heads);
    attribute(at, "num_kv_heads", dump.shape.num_kv_heads);
    attribute(at, "head_dim", dump.shape.head_dim);
    attribute(at, "value_dim", dump.shape.value_dim);
    attribute(at, "num_layers", dump.num_layers);
    const Handle samples = group(at, "samples");
    for (const StudySample& sample : dump.samples) create_sample(group(samples, sample.name), sample);
  }
  void create_sample(const Handle& at, const StudySample& sample) const {
    attribute(at, "task", sample.task);
    attribute(at, "num_tokens", sample.num_tokens);
    vector(at, "layers", H5T_STD_I32LE, H5T_NATIVE_INT, sample.layers, "layer");
    vector(at, "query_positions", H5T_STD_I64LE, H5T_NATIVE_INT64, sample.query_positions, "query");
    group(at, std::string(kScoresGroup));
    for (const StudySelector& s : study.selectors) {
      const Handle selector = group(at, s.label);
      attribute(selector, "selector", s.name);
      attribute(selector, "setting", std::string(name_of(s.kind)));
      attribute(selector, "options", s.options_json);
      vector(selector, "settings", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values_of(s.grid), "setting");
      std::vector<const char*> labels;
      for (const std::string& label : s.setting_labels) labels.push_back(label.c_str());
      vector(selector, "setting_labels", string_type.get(), string_type.get(), labels, "setting");
      vector(selector, "lambdas", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, study.lambdas, "lambda");
      const std::uint8_t no = 0;
      data_set(selector, "dense", H5T_STD_U8LE, {size_of_axis(sample.layers.size())}, {"layer"}, &no);
      data_set(selector, "done", H5T_STD_U8LE, {size_of_axis(sample.layers.size())}, {"layer"}, &no);
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
  void write_row(const Handle& data, const Extent& extent, std::size_t y, hid_t type, const void* values) const {
    Extent start(extent.size(), 0), count = extent;
    start[0] = y;
    count[0] = 1;
    const Handle in_file = owned(H5Dget_space(data.get()));
    checked(H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr));
    const Handle in_memory = owned(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
    checked(H5Dwrite(data.get(), type, in_memory.get(), in_file.get(), H5P_DEFAULT, values));
  }
  void write_metric(const Handle& at, const Extent& extent, std::size_t y, const MetricValues& metric) const {
    hsize_t expected = 1;
    for (std::size_t axis = 1; axis < extent.size(); ++axis) expected *= extent[axis];
    if (metric.values.size() != expected)
      throw std::logic_error(
          fmt::format("metric {} has {} values, expected {}", metric.name, metric.values.size(), expected));
    const bool exists = checked(H5Lexists(at.get(), metric.name.c_str(), H5P_DEFAULT)) > 0;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Handle data = exists ? owned(H5Dopen2(at.get(), metric.name.c_str(), H5P_DEFAULT))
                               : data_set(at, metric.name, H5T_IEEE_F32LE, extent, labels_of(metric.axes), &nan);
    write_row(data, extent, y, H5T_NATIVE_FLOAT, metric.values.data());
  }
  void write_flag(const Handle& at, const char* name, std::size_t num_layers, std::size_t y, bool value) const {
    const Handle data = owned(H5Dopen2(at.get(), name, H5P_DEFAULT));
    const std::uint8_t flag = value;
    write_row(data, {size_of_axis(num_layers)}, y, H5T_NATIVE_UINT8, &flag);
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

    const hdf5::Lock lock;
    const auto y = static_cast<std::size_t>(layer - sample->layers.begin());
    const Handle samples = open_group(fmt::format("dumps/{}/samples", results.dump));
    const Handle at = owned(H5Gopen2(samples.get(), results.sample.c_str(), H5P_DEFAULT));
    const Handle scores = owned(H5Gopen2(at.get(), std::string(kScoresGroup).c_str(), H5P_DEFAULT));
    for (const MetricValues& metric : results.scores)
      write_metric(scores, extent_of(dump, *sample, nullptr, metric.axes), y, metric);
    for (std::size_t i = 0; i < study.selectors.size(); ++i) {
      const StudySelector& selector = study.selectors[i];
      const Handle group = owned(H5Gopen2(at.get(), selector.label.c_str(), H5P_DEFAULT));
      for (const MetricValues& metric : results.selectors[i].metrics)
        write_metric(group, extent_of(dump, *sample, &selector, metric.axes), y, metric);
      write_flag(group, "dense", sample->layers.size(), y, results.selectors[i].dense);
      write_flag(group, "done", sample->layers.size(), y, true);
    }
  }

  void finish(const std::string& manifest_json) {
    const hdf5::Lock lock;
    attribute(file, "manifest", manifest_json);
    string_type.close();
    if (!file.close()) fail(hdf5::take_error_text());
    sync(temporary);
    std::error_code error;
    std::filesystem::rename(temporary, path, error);
    if (error) fail(error.message());
    complete = true;
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    sync(folder.string());
  }
  void sync(const std::string& name) const {
    const FileDescriptor file(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
    // Some file systems cannot sync a folder, and say EINVAL.
    if (!file || (::fsync(file.get()) != 0 && errno != EINVAL)) fail(std::generic_category().message(errno));
  }
};

ResultsWriter::ResultsWriter(const std::string& path, const Study& study, const std::string& temporary)
    : state_(std::make_unique<State>()) {
  check_labels(study.selectors);
  state_->path = path;
  state_->temporary = temporary.empty() ? fmt::format("{}.tmp{}", path, ::getpid()) : temporary;
  state_->study = study;
  try {
    state_->create();
  } catch (...) {
    state_->file.close();
    std::error_code ignored;
    std::filesystem::remove(state_->temporary, ignored);
    throw;
  }
}

ResultsWriter::~ResultsWriter() {
  if (state_->complete) return;
  state_->file.close();
  std::error_code ignored;
  std::filesystem::remove(state_->temporary, ignored);
}

void ResultsWriter::add(const LayerResults& layer) { state_->add(layer); }

void ResultsWriter::finish(const std::string& manifest_json) { state_->finish(manifest_json); }

}  // namespace attest
