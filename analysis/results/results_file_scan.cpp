// Reads the structure of a results file with HDF5 and checks it.
#include "analysis/results/results_file_scan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "analysis/metrics/metric.h"
#include "analysis/results/axes.h"
#include "analysis/results/model_metric.h"
#include "analysis/results/results_file.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "dumps/dump_info.h"
#include "dumps/format/format_names.h"
#include "dumps/hdf5/dataset.h"
#include "dumps/hdf5/node.h"

namespace attest {
namespace {

using hdf5::Dataset;
using hdf5::Group;
constexpr std::size_t kMaxAxes = 32;  // of an HDF5 data set

// Data sets that are not metrics. Older files have no scales: layer, query, head, setting, lambda, token.
const std::vector<std::string>& non_metrics_of_selector() {
  static const std::vector<std::string> names{"settings", "setting_labels", "lambdas", "span_tokens",
                                              "dense",    "done",           "layer",   "query",
                                              "head",     "setting",        "lambda",  "token"};
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names_and_sums = names;  // those of the whole model follow from their heads' cells
    for (const ModelMetric& metric : kModelMetrics) names_and_sums.emplace_back(metric.info.name);
    return names_and_sums;
  }();
  return all;
}
const std::vector<std::string>& non_metrics_of_scores() {
  static const std::vector<std::string> names{"layer", "query", "head", "margin"};
  return names;
}

/// The axes from the data set's labels. Without labels: from the table of metrics, or, for a metric that is not in the
/// table, from the rank (four axes end in settings, three in heads).
MetricAxes axes_of(const Dataset& data, const std::string& metric) {
  const Metric* known = find_metric(metric);
  if (data.has_attribute("DIMENSION_LABELS")) {
    const std::vector<std::string> names = data.string_list_attribute("DIMENSION_LABELS", kMaxAxes);
    const std::optional<MetricAxes> axes = axes_named(names);
    if (axes && (!known || *axes == known->info.axes)) return *axes;
    data.fail(fmt::format("its axes are labelled '{}', expected {}", printable(join(names, ", ")),
                          known ? fmt::format("'{}'", join(axis_names(known->info.axes), ", "))
                                : "the axes of a metric, such as 'layer, query, head, setting'"));
  }
  if (known) return known->info.axes;
  return data.shape().size() >= 4 ? MetricAxes::query_head_setting : MetricAxes::query_head;
}

std::vector<std::int64_t> read_ascending(const Dataset& data, std::int64_t maximum) {
  if (data.shape().size() != 1 || data.shape()[0] == 0) data.fail("is not a list of numbers");
  const std::vector<std::int64_t> values = data.read_integers();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0 || values[i] > maximum || (i > 0 && values[i] <= values[i - 1]))
      data.fail(fmt::format("[{}] is {}, expected ascending numbers from 0 to {}", i, values[i], maximum));
  return values;
}

std::vector<std::int64_t> read_flags(const Group& group, const std::string& name, std::int64_t layers) {
  const Dataset data(group.open(name));
  data.expect_shape({&layers, 1}, "layers");
  std::vector<std::int64_t> flags = data.read_integers();
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (flags[i] != 0 && flags[i] != 1) data.fail(fmt::format("[{}] is {}, expected 0 or 1", i, flags[i]));
  return flags;
}

/// Maps each metric's name to its axes and its offset in the file (-1 if HDF5 must decode the values).
Json read_metrics(const Group& group, const AxisSizes& sizes, const std::vector<std::string>& others) {
  Json metrics = Json::object();
  for (const std::string& name : group.names()) {
    if (std::find(others.begin(), others.end(), name) != others.end()) continue;
    const Dataset data(group.open(name));
    const MetricAxes axes = axes_of(data, name);
    data.expect_shape(shape_of(axes, sizes), join(axis_names(axes), ", "));
    if (data.element_type() != ElementType::float32) data.fail("does not hold float32 values");
    metrics[name] = {{"axes", static_cast<int>(axes)}, {"offset", data.location().file_offset}};
  }
  return metrics;
}

/// The settings of a grid can be drawn on an axis; inf is what keeps everything.
std::vector<double> read_settings(const Group& group) {
  constexpr double kMin = 1e-100, kMax = 1e100;
  const Dataset data(group.open("settings"));
  const std::vector<double> settings = data.read_doubles();
  if (settings.empty()) data.fail("is empty, expected a setting");
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const double size = std::abs(settings[i]);
    if (size != 0 && !std::isinf(size) && !(size >= kMin && size <= kMax))
      data.fail(fmt::format("[{}] is {}, expected 0 or a number from {} to {}", i, settings[i], kMin, kMax));
  }
  return settings;
}

std::string read_options(const Group& group) {
  std::string options = group.string_attribute("options");
  if (const auto parsed = parsed_json(options); !parsed || !parsed->is_object())
    group.fail(fmt::format("attribute 'options' is '{}', expected a JSON object", excerpt(options)));
  return options;
}

Json read_selector(const Group& group, AxisSizes sizes, std::int64_t num_tokens) {
  Json selector = {{"label", group.path().substr(group.path().rfind('/') + 1)},
                   {"selector", group.string_attribute("selector")},
                   {"setting", group.string_attribute("setting")},
                   {"options", read_options(group)}};
  const std::vector<double> settings = read_settings(group);
  const Dataset labels(group.open("setting_labels"));
  sizes.settings = static_cast<std::int64_t>(settings.size());
  labels.expect_shape({&sizes.settings, 1}, "settings");
  const std::vector<double> lambdas =
      group.contains("lambdas") ? Dataset(group.open("lambdas")).read_doubles() : std::vector<double>{};
  sizes.lambdas = static_cast<std::int64_t>(lambdas.size());
  const std::vector<std::int64_t> tokens = group.contains("span_tokens")
                                               ? read_ascending(Dataset(group.open("span_tokens")), num_tokens - 1)
                                               : std::vector<std::int64_t>{};
  sizes.tokens = static_cast<std::int64_t>(tokens.size());
  selector["span_tokens"] = tokens;
  selector["settings"] = settings;
  selector["setting_labels"] = labels.read_strings();
  selector["lambdas"] = lambdas;
  selector["dense"] = read_flags(group, "dense", sizes.layers);
  selector["done"] = read_flags(group, "done", sizes.layers);
  selector["metrics"] = read_metrics(group, sizes, non_metrics_of_selector());
  return selector;
}

/// [N]; empty if the results have none.
std::vector<double> read_margin(const Group& scores, std::int64_t queries) {
  if (!scores.contains("margin")) return {};
  const Dataset data(scores.open("margin"));
  data.expect_shape({&queries, 1}, "query");
  const std::vector<float> margin = data.read_floats();
  for (std::size_t i = 0; i < margin.size(); ++i)
    if (!std::isfinite(margin[i])) data.fail(fmt::format("[{}] is {}, expected a finite margin", i, margin[i]));
  return {margin.begin(), margin.end()};
}

Json read_sample(const Group& group, std::int64_t heads, std::int64_t num_layers) {
  Json sample = {{"name", group.path().substr(group.path().rfind('/') + 1)},
                 {"task", group.string_attribute("task")},
                 {"num_tokens", group.integer_attribute("num_tokens", 1, kLargestCount)}};
  if (group.has_attribute("document")) sample["document"] = group.string_attribute("document");
  const std::vector<std::int64_t> layers = read_ascending(Dataset(group.open("layers")), num_layers - 1);
  const std::vector<std::int64_t> positions =
      read_ascending(Dataset(group.open("query_positions")), sample["num_tokens"].whole() - 1);
  const AxisSizes sizes{.layers = static_cast<std::int64_t>(layers.size()),
                        .queries = static_cast<std::int64_t>(positions.size()),
                        .heads = heads};
  sample["layers"] = layers;
  sample["query_positions"] = positions;
  sample["scores"] = read_metrics(group.group(std::string(kScoresGroup)), sizes, non_metrics_of_scores());
  sample["margin"] = read_margin(group.group(std::string(kScoresGroup)), sizes.queries);
  sample["selectors"] = Json::array();
  for (const std::string& name : group.names_as_created())
    if (name != kScoresGroup && name != "layers" && name != "query_positions")
      sample["selectors"].push_back(read_selector(group.group(name), sizes, sample["num_tokens"].whole()));
  sample["span_tokens"] = Json::array();
  for (const Json& selector : sample["selectors"].elements()) {
    if (selector["span_tokens"] != sample.at("selectors")[0]["span_tokens"])
      group.group(selector["label"].text()).fail("its span_tokens are not those of the sample's other selectors");
    sample["span_tokens"] = selector["span_tokens"];
  }
  return sample;
}

Json read_dump(const Group& group) {
  Json dump = {{"path", group.string_attribute("path")},
               {"model", group.string_attribute("model")},
               {"num_layers", group.integer_attribute("num_layers", 1, kLargestCount)},
               {"samples", Json::array()}};
  for (const char* name : {"num_query_heads", "num_kv_heads", "head_dim", "value_dim"})
    dump[name] = group.integer_attribute(name, 1, kLargestCount);
  if (dump["num_query_heads"].whole() % dump["num_kv_heads"].whole() != 0)
    group.fail(fmt::format("attribute 'num_kv_heads' is {}, expected a divisor of 'num_query_heads', which is {}",
                           dump["num_kv_heads"].whole(), dump["num_query_heads"].whole()));
  dump["values_in_keys"] =
      group.has_attribute("values_in_keys") ? group.integer_attribute("values_in_keys", 0, 1) : std::int64_t{0};
  for (const char* name : {"engine", "kv_cache"})
    dump[name] = group.has_attribute(name) ? group.string_attribute(name) : std::string();
  const Group samples = group.group("samples");
  for (const std::string& name : samples.names_as_created())
    dump["samples"].push_back(
        read_sample(samples.group(name), dump["num_query_heads"].whole(), dump["num_layers"].whole()));
  return dump;
}

}  // namespace

Json scan_results_file(const std::string& path) {
  const Group root = hdf5::root_of(hdf5::open_file(path));
  const std::string format = root.string_attribute("format");
  if (format != kStudyFormat)
    root.fail(fmt::format("attribute 'format' is '{}', expected '{}'{}", format, kStudyFormat, format_hint(format)));
  root.integer_attribute("format_version", kStudyVersion, kStudyVersion);
  Json study = {{"manifest", root.string_attribute("manifest")}, {"dumps", Json::array()}};
  const Group dumps = root.group("dumps");
  for (std::size_t d = 0; d < dumps.names().size(); ++d)
    study["dumps"].push_back(read_dump(dumps.group(std::to_string(d))));
  return study;
}

}  // namespace attest
