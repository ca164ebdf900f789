// Reading of results files. The guarded child process sends everything but the values packed, which unlike JSON can
// represent infinity. Values of contiguous data sets, the only kind that attest writes, are then read without HDF5.
#include <fmt/core.h>

#include <cmath>
#include <map>
#include <span>

#include "analysis/results/axes.h"
#include "analysis/results/cell_check.h"
#include "analysis/results/decoded_arrays.h"
#include "analysis/results/results_file.h"
#include "analysis/results/results_file_scan.h"
#include "dumps/base/byte_size.h"
#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/json_packed.h"
#include "dumps/base/printable.h"
#include "dumps/hdf5/guarded_child.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

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

MetricAxes checked_axes(int number) {
  const std::optional<MetricAxes> axes = axes_numbered(number);
  if (!axes) throw JsonError(fmt::format("there are no axes {}", number));
  return *axes;
}

/// A byte per layer.
std::vector<std::uint8_t> layer_flags(const Json& flags, std::size_t layers) {
  auto found = flags.as<std::vector<std::uint8_t>>();
  if (found.size() != layers) throw JsonError(fmt::format("{} flags of {} layers", found.size(), layers));
  return found;
}

MetricPlaces places_of(const Json& metrics) {
  MetricPlaces places;
  for (const auto& [name, place] : metrics.members())
    places[name] = {checked_axes(place.at("axes").as<int>()), place.at("offset").whole()};
  return places;
}

SettingKind kind_of(const std::string& path, const Json& selector) {
  const std::string& name = selector.at("setting").text();
  for (const SettingKindInfo& info : kSettingKinds)
    if (info.name == name) return info.kind;
  throw InputError(fmt::format("{}: selector '{}': its setting is '{}', expected none, delta, budget, p or factor",
                               path, printable(selector.at("label").text()), printable(name)));
}

StudySelector selector_of(const std::string& path, const Json& selector) {
  StudySelector out{.label = selector.at("label").text(),
                    .name = selector.at("selector").text(),
                    .options_json = selector.at("options").text(),
                    .kind = kind_of(path, selector),
                    .grid = {},
                    .setting_labels = selector.at("setting_labels").as<std::vector<std::string>>()};
  const auto values = selector.at("settings").as<std::vector<double>>();
  if (values.size() != out.setting_labels.size()) throw JsonError("as many settings as labels of them were expected");
  for (std::size_t i = 0; i < values.size(); ++i) out.grid.push_back({values[i], out.setting_labels[i].ends_with('%')});
  return out;
}

bool same(const StudySelector& a, const StudySelector& b) {
  return a.label == b.label && a.name == b.name && a.kind == b.kind && a.options_json == b.options_json &&
         a.grid == b.grid && a.setting_labels == b.setting_labels;
}

/// NaN if the manifest lacks it.
double salient_delta_of(const std::string& manifest) {
  const Json document = parsed_json(manifest).value_or(nullptr);
  const Json& delta = document["configuration"]["salient_delta"];
  return delta.is_number() ? delta.number() : kNaN;
}

}  // namespace

struct ResultsFile::State {
  std::string path;
  Study study;
  std::string manifest;
  std::vector<std::vector<SampleData>> samples;  // [dump][sample]
  bool selectors_taken = false;                  // from the first sample of the file
  DecodedArrays decoded;

  const SelectorData& selector(std::size_t dump, std::size_t sample, std::size_t index) const {
    return samples.at(dump).at(sample).selectors.at(index);
  }

  void take(const Json& found) {
    manifest = found.at("manifest").text();
    study.salient_delta = salient_delta_of(manifest);
    study.lambdas.clear();
    for (const Json& d : found.at("dumps").elements()) {
      StudyDump& dump = study.dumps.emplace_back();
      dump.path = d.at("path").text();
      dump.model = d.at("model").text();
      dump.num_layers = d.at("num_layers").as<int>();
      dump.shape = {d.at("num_query_heads").as<int>(), d.at("num_kv_heads").as<int>(), d.at("head_dim").as<int>(),
                    d.at("value_dim").as<int>(), d.at("values_in_keys").as<int>()};
      dump.engine = d.at("engine").text();
      dump.kv_cache = d.at("kv_cache").text();
      samples.emplace_back();
      for (const Json& s : d.at("samples").elements()) take_sample(s, dump);
    }
  }

  void take_sample(const Json& s, StudyDump& dump) {
    const bool is_first = !selectors_taken;
    selectors_taken = true;
    dump.samples.push_back({.name = s.at("name").text(),
                            .task = s.at("task").text(),
                            .num_tokens = s.at("num_tokens").whole(),
                            .layers = s.at("layers").as<std::vector<int>>(),
                            .query_positions = s.at("query_positions").as<std::vector<std::int64_t>>(),
                            .has_spans = s.at("scores").contains("span_mass"),
                            .span_tokens = s.at("span_tokens").as<std::vector<std::int64_t>>(),
                            .margin = s.at("margin").as<std::vector<float>>()});
    if (s.contains("document")) dump.samples.back().attributes["document"] = s.at("document").text();
    SampleData& data = samples.back().emplace_back();
    data.scores = places_of(s.at("scores"));
    const Json& selectors = s.at("selectors");
    for (std::size_t i = 0; i < selectors.size(); ++i) {
      const auto lambdas = selectors[i].at("lambdas").as<std::vector<double>>();
      if (is_first) {
        study.selectors.push_back(selector_of(path, selectors[i]));
        if (i == 0) study.lambdas = lambdas;
      }
      if (i >= study.selectors.size() || !same(selector_of(path, selectors[i]), study.selectors[i]) ||
          lambdas != study.lambdas)
        fail_uneven(s.at("name").text(), selectors[i].at("label").text());
      data.selectors.push_back({.dense = layer_flags(selectors[i].at("dense"), dump.samples.back().layers.size()),
                                .done = layer_flags(selectors[i].at("done"), dump.samples.back().layers.size()),
                                .metrics = places_of(selectors[i].at("metrics"))});
    }
    if (selectors.size() != study.selectors.size())
      fail_uneven(s.at("name").text(), study.selectors[selectors.size()].label);
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
    const std::string object = object_of(d, sample, selector, metric);
    const InputFile file(path);
    check_array_size(file, object, count * sizeof(float));
    array.values.resize(count);
    if (place.offset >= 0)
      file.read(static_cast<std::uint64_t>(place.offset), std::as_writable_bytes(std::span(array.values)));
    else
      decoded.read(file, object, array.values);
    if (accepted == ReadCells::in_range)
      if (const std::optional<MetricRange> range = range_of(selector, metric))
        check_range(array, *range, sample, object);
    return array;
  }

  static std::string object_of(std::size_t dump, const StudySample& sample, const StudySelector* selector,
                               std::string_view metric) {
    return fmt::format("/dumps/{}/samples/{}/{}/{}", dump, sample.name,
                       selector != nullptr ? std::string_view(selector->label) : kScoresGroup, metric);
  }

  /// Every array of the file that HDF5 must decode.
  std::vector<DecodedArrays::Array> arrays_to_decode() const {
    std::vector<DecodedArrays::Array> arrays;
    for (std::size_t d = 0; d < samples.size(); ++d)
      for (std::size_t s = 0; s < samples[d].size(); ++s) {
        const StudySample& sample = study.dumps[d].samples[s];
        const auto add = [&](const MetricPlaces& places, const StudySelector* selector) {
          for (const auto& [metric, place] : places) {
            if (place.offset >= 0) continue;
            std::size_t count = 1;
            for (const std::int64_t size : shape_of(place.axes, axis_sizes(study, study.dumps[d], sample, selector)))
              count *= static_cast<std::size_t>(size);
            arrays.push_back({object_of(d, sample, selector, metric), count});
          }
        };
        add(samples[d][s].scores, nullptr);
        for (std::size_t i = 0; i < samples[d][s].selectors.size(); ++i)
          add(samples[d][s].selectors[i].metrics, &study.selectors[i]);
      }
    return arrays;
  }

  /// attest writes plain arrays, as large as in memory. A small compressed file may claim more, and each figure would
  /// inflate it again.
  void check_array_size(const InputFile& file, const std::string& object, std::uint64_t bytes) const {
    const std::uint64_t stored = file.stored_bytes(), maximum = max_decoded(stored);
    if (bytes <= maximum) return;
    throw InputError(fmt::format("{}: {}: takes {} of memory, the file has {} on disk; expected at most {}", path,
                                 printable(object), byte_size_text(bytes), byte_size_text(stored),
                                 byte_size_text(maximum)));
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
        const std::string bytes = packed(scan_results_file(path));
        out.write(std::as_bytes(std::span(bytes)));
      },
      [&](ChildInput& in) { found = in.read_all(limits.memory_bytes); });
  try {
    state_->take(unpacked(found));
    state_->decoded.expect(state_->arrays_to_decode());
  } catch (const JsonError& error) {  // the file corrupted the memory of the child
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
