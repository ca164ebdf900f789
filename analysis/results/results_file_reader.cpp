// Reading of results files. The guarded child process sends everything but the values as CBOR, which unlike JSON can
// represent infinity. Values of contiguous data sets, the only kind that attest writes, are then read without HDF5.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "analysis/results/cell_check.h"
#include "analysis/results/results_file.h"
#include "analysis/results/results_file_scan.h"
#include "dumps/base/byte_size.h"
#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/json_text.h"
#include "dumps/base/printable.h"
#include "dumps/format/memory_bound.h"
#include "dumps/hdf5/dataset.h"
#include "dumps/hdf5/guarded_child.h"
#include "dumps/hdf5/node.h"

namespace attest {
namespace {

using hdf5::Dataset;
using hdf5::Group;
using nlohmann::json;

struct MetricPlace {
  MetricAxes axes = MetricAxes::query_head;
  std::int64_t offset = -1;
};
using MetricPlaces = std::map<std::string, MetricPlace, std::less<>>;

struct SelectorData {
  std::vector<std::uint8_t> dense, done;
  MetricPlaces metrics;
};
struct SampleData {
  MetricPlaces scores;
  std::vector<SelectorData> selectors;
};

MetricPlaces places_of(const json& metrics) {
  MetricPlaces places;
  for (const auto& [name, place] : metrics.items())
    places[name] = {static_cast<MetricAxes>(place.at("axes").get<int>()), place.at("offset")};
  return places;
}

SettingKind kind_of(const std::string& path, const json& selector) {
  const std::string name = selector.at("setting");
  for (const SettingKindInfo& info : kSettingKinds)
    if (info.name == name) return info.kind;
  throw InputError(fmt::format("{}: selector '{}': its setting is '{}', expected none, delta, budget, p or factor",
                               path, printable(selector.at("label").get<std::string>()), printable(name)));
}

StudySelector selector_of(const std::string& path, const json& selector) {
  StudySelector out{.label = selector.at("label"),
                    .name = selector.at("selector"),
                    .options_json = selector.at("options"),
                    .kind = kind_of(path, selector),
                    .grid = {},
                    .setting_labels = selector.at("setting_labels")};
  const std::vector<double> values = selector.at("settings");
  for (std::size_t i = 0; i < values.size(); ++i) out.grid.push_back({values[i], out.setting_labels[i].ends_with('%')});
  return out;
}

bool same(const StudySelector& a, const StudySelector& b) {
  return a.label == b.label && a.name == b.name && a.kind == b.kind && a.options_json == b.options_json &&
         a.grid == b.grid && a.setting_labels == b.setting_labels;
}

/// NaN if the manifest lacks it.
double salient_delta_of(const std::string& manifest) {
  const std::optional<json> document = parse_json(manifest);
  const json::json_pointer place("/configuration/salient_delta");
  if (!document || !document->contains(place) || !document->at(place).is_number())
    return std::numeric_limits<double>::quiet_NaN();
  return document->at(place);
}

}  // namespace

struct ResultsFile::State {
  std::string path;
  Study study;
  std::string manifest;
  std::vector<std::vector<SampleData>> samples;  // [dump][sample]
  bool selectors_taken = false;                  // from the first sample of the file

  const SelectorData& selector(std::size_t dump, std::size_t sample, std::size_t index) const {
    return samples.at(dump).at(sample).selectors.at(index);
  }

  void take(const json& found) {
    manifest = found.at("manifest");
    study.salient_delta = salient_delta_of(manifest);
    study.lambdas.clear();
    for (const json& d : found.at("dumps")) {
      StudyDump& dump = study.dumps.emplace_back();
      dump.path = d.at("path");
      dump.model = d.at("model");
      dump.num_layers = d.at("num_layers");
      dump.shape = {d.at("num_query_heads"), d.at("num_kv_heads"), d.at("head_dim"), d.at("value_dim")};
      samples.emplace_back();
      for (const json& s : d.at("samples")) take_sample(s, dump);
    }
  }

  void take_sample(const json& s, StudyDump& dump) {
    const bool is_first = !selectors_taken;
    selectors_taken = true;
    dump.samples.push_back({.name = s.at("name"),
                            .task = s.at("task"),
                            .num_tokens = s.at("num_tokens"),
                            .layers = s.at("layers"),
                            .query_positions = s.at("query_positions"),
                            .has_spans = s.at("scores").contains("span_mass"),
                            .span_tokens = s.at("span_tokens")});
    SampleData& data = samples.back().emplace_back();
    data.scores = places_of(s.at("scores"));
    const json& selectors = s.at("selectors");
    for (std::size_t i = 0; i < selectors.size(); ++i) {
      const std::vector<double> lambdas = selectors[i].at("lambdas");
      if (is_first) {
        study.selectors.push_back(selector_of(path, selectors[i]));
        if (i == 0) study.lambdas = lambdas;
      }
      if (i >= study.selectors.size() || !same(selector_of(path, selectors[i]), study.selectors[i]) ||
          lambdas != study.lambdas)
        fail_uneven(s.at("name"), selectors[i].at("label"));
      data.selectors.push_back({.dense = selectors[i].at("dense"),
                                .done = selectors[i].at("done"),
                                .metrics = places_of(selectors[i].at("metrics"))});
    }
    if (selectors.size() != study.selectors.size()) fail_uneven(s.at("name"), study.selectors[selectors.size()].label);
  }
  [[noreturn]] void fail_uneven(const std::string& sample, const std::string& label) const {
    throw InputError(
        fmt::format("{}: sample '{}' and selector '{}': not the same selectors, settings and lambdas as in "
                    "the first sample of the file",
                    path, printable(sample), printable(label)));
  }

  /// Reads one metric of sample `s` of dump `d`; of the exact scores if `selector` is null.
  MetricArray read(std::size_t d, std::size_t s, const StudySelector* selector, std::string_view metric,
                   const MetricPlace& place, ReadCells accepted) const {
    const StudyDump& dump = study.dumps[d];
    const StudySample& sample = dump.samples[s];
    MetricArray array{
        .axes = place.axes, .shape = shape_of(place.axes, axis_sizes(study, dump, sample, selector)), .values = {}};
    std::size_t count = 1;
    for (const std::int64_t size : array.shape) count *= static_cast<std::size_t>(size);
    const std::vector<std::string> names{"dumps", std::to_string(d), "samples", sample.name,
                                         selector != nullptr ? selector->label : std::string(kScoresGroup)};
    const std::string object = fmt::format("/{}/{}", fmt::join(names, "/"), metric);
    const InputFile file(path);
    check_array_size(file, object, count * sizeof(float));
    array.values.resize(count);
    if (place.offset >= 0)
      file.read(static_cast<std::uint64_t>(place.offset), std::as_writable_bytes(std::span(array.values)));
    else
      read_decoded(file, array.values, names, std::string(metric));
    if (accepted == ReadCells::in_range)
      if (const std::optional<MetricRange> range = range_of(selector, metric))
        check_range(array, *range, sample, object);
    return array;
  }

  /// attest writes plain arrays, as large as in memory. A small compressed file may claim more, and each figure would
  /// inflate it again.
  void check_array_size(const InputFile& file, const std::string& object, std::uint64_t bytes) const {
    constexpr std::uint64_t kFree = std::uint64_t{256} << 20;
    const std::uint64_t stored = file.stored_bytes(), most = std::max(kFree, kFreeExpansion * stored);
    if (bytes <= most) return;
    throw InputError(fmt::format("{}: {}: takes {} of memory, the file has {} on disk; expected at most {}", path,
                                 printable(object), byte_size_text(static_cast<std::int64_t>(bytes)),
                                 byte_size_text(static_cast<std::int64_t>(stored)),
                                 byte_size_text(static_cast<std::int64_t>(most))));
  }

  /// A figure has axes for what the metric can be, logarithmic ones for ratios. NaN is drawn nowhere.
  void check_range(const MetricArray& array, const MetricRange& range, const StudySample& sample,
                   const std::string& object) const {
    for (std::size_t cell = 0; cell < array.values.size(); ++cell) {
      const float value = array.values[cell];
      if (is_within(value, range) || std::isnan(value)) continue;
      throw InputError(fmt::format("{}: {}: [{}] {}", path, printable(object), place_text(array, sample, cell),
                                   defect(value, range)));
    }
  }

  void read_decoded(const InputFile& file, std::span<float> values, const std::vector<std::string>& groups,
                    const std::string& metric) const {
    const ChildLimits limits = value_limits(file.stored_bytes(), values.size_bytes());
    const std::span<std::byte> target = std::as_writable_bytes(values);
    std::size_t received = 0;
    run_in_guarded_child(
        path, limits,
        [&](ChildOutput& out) {
          Group group = hdf5::root_of(hdf5::open_file(path));
          for (const std::string& name : groups) group = group.group(name);
          Dataset(group.open(metric)).read_slabs([&](std::span<const std::byte> slab) { out.write(slab); });
        },
        [&](ChildInput& in) { received = in.read(target); });
    if (received != target.size()) throw InputError(fmt::format("{}: changed while it was read", path));
  }

  static std::vector<std::string> names_of(const MetricPlaces& places) {
    std::vector<std::string> names;
    for (const auto& [name, place] : places) names.push_back(name);
    return names;
  }
};

ResultsFile::ResultsFile(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  const ChildLimits limits = metadata_limits(InputFile(path).stored_bytes());
  std::string found;
  run_in_guarded_child(
      path, limits,
      [&](ChildOutput& out) {
        const std::vector<std::uint8_t> bytes = json::to_cbor(scan_results_file(path));
        out.write(std::as_bytes(std::span(bytes)));
      },
      [&](ChildInput& in) { found = in.read_all(limits.memory_bytes); });
  try {
    state_->take(json::from_cbor(found));
  } catch (const json::exception& error) {  // the file corrupted the memory of the child
    throw InputError(fmt::format("{}: the file is damaged ({})", path, error.what()));
  }
}

ResultsFile::~ResultsFile() = default;
ResultsFile::ResultsFile(ResultsFile&&) noexcept = default;
ResultsFile& ResultsFile::operator=(ResultsFile&&) noexcept = default;

const std::string& ResultsFile::path() const { return state_->path; }

const Study& ResultsFile::study() const { return state_->study; }

const std::string& ResultsFile::manifest() const { return state_->manifest; }

std::optional<std::size_t> ResultsFile::find_selector(std::string_view label) const {
  const std::vector<StudySelector>& selectors = state_->study.selectors;
  for (std::size_t i = 0; i < selectors.size(); ++i)
    if (selectors[i].label == label) return i;
  return std::nullopt;
}

std::vector<std::string> ResultsFile::metrics(std::size_t dump, std::size_t sample, std::size_t selector) const {
  return State::names_of(state_->selector(dump, sample, selector).metrics);
}

std::vector<std::string> ResultsFile::score_metrics(std::size_t dump, std::size_t sample) const {
  return State::names_of(state_->samples.at(dump).at(sample).scores);
}

MetricAxes ResultsFile::axes(std::size_t dump, std::size_t sample, std::optional<std::size_t> selector,
                             const std::string& metric) const {
  const SampleData& data = state_->samples.at(dump).at(sample);
  return (selector ? data.selectors.at(*selector).metrics : data.scores).at(metric).axes;
}

std::optional<MetricArray> ResultsFile::read(std::size_t dump, std::size_t sample, std::size_t selector,
                                             std::string_view metric, ReadCells accepted) const {
  const MetricPlaces& places = state_->selector(dump, sample, selector).metrics;
  const auto place = places.find(metric);
  if (place == places.end()) return std::nullopt;
  return state_->read(dump, sample, &state_->study.selectors[selector], metric, place->second, accepted);
}

std::optional<MetricArray> ResultsFile::read_scores(std::size_t dump, std::size_t sample, std::string_view metric,
                                                    ReadCells accepted) const {
  const MetricPlaces& places = state_->samples.at(dump).at(sample).scores;
  const auto place = places.find(metric);
  if (place == places.end()) return std::nullopt;
  return state_->read(dump, sample, nullptr, metric, place->second, accepted);
}

const std::vector<std::uint8_t>& ResultsFile::dense(std::size_t dump, std::size_t sample, std::size_t selector) const {
  return state_->selector(dump, sample, selector).dense;
}

const std::vector<std::uint8_t>& ResultsFile::done(std::size_t dump, std::size_t sample, std::size_t selector) const {
  return state_->selector(dump, sample, selector).done;
}

}  // namespace attest
