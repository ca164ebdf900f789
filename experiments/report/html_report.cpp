// Fills the page: static parts, the data for its script, and arrays as far as they fit.
#include "experiments/report/html_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "dumps/base/json.h"
#include "experiments/report/page_parts.h"
#include "experiments/report/report_parts.h"
#include "plots/page/packed_values.h"
#include "plots/page/page.h"
#include "plots/style.h"

namespace attest {
namespace {

/// The digits that are shown; for a share, the digits of what is missing to 1.
constexpr int digits_of(bool is_share) { return is_share ? 3 : 4; }

/// Bounds of what the page has besides: the place of each array in the lists, and notes on the arrays.
constexpr std::size_t kBytesBetweenArrays = 3, kBytesOfPlace = 40, kBytesOfNotes = 400;

/// So many findings are shown on the first screen; the others are folded.
constexpr std::size_t kFirstFindings = 7;

struct PackedArray {
  const MapArray* array = nullptr;
  int digits = 0;
  std::string base64;
};

PackedArray pack(const ReportData& data, const MapArray& array, int digits_less) {
  const MapMetric& metric = data.metrics.at(static_cast<std::size_t>(array.metric));
  const int digits = digits_of(metric.is_share) - digits_less;
  return {&array, digits, pack_values(array.values, digits, metric.is_share)};
}

/// Equal arrays are stored once: samples with one query, metrics that are the same for some selectors.
std::size_t bytes_of(const std::vector<PackedArray>& arrays) {
  std::set<std::string_view> texts;
  std::size_t bytes = 0;
  for (const PackedArray& array : arrays)
    if (texts.insert(array.base64).second) bytes += array.base64.size() + kBytesBetweenArrays;
  return bytes;
}

/// Arrays that take at most `max_bytes`, if those of rank 0 do: first with a digit less, from the highest rank down to
/// 0, then without the highest ranks.
std::vector<PackedArray> fit(const ReportData& data, std::size_t max_bytes, HtmlReport& report) {
  std::vector<PackedArray> arrays;
  std::set<int, std::greater<>> ranks;
  for (const MapArray& array : data.arrays) {
    arrays.push_back(pack(data, array, 0));
    ranks.insert(array.rank);
  }
  int rounded = INT_MAX;
  for (const int rank : ranks) {
    if (bytes_of(arrays) <= max_bytes) break;
    for (PackedArray& array : arrays)
      if (array.array->rank == rank) array = pack(data, *array.array, 1);
    rounded = rank;
  }
  for (const int rank : ranks) {
    if (rank == 0 || bytes_of(arrays) <= max_bytes) break;
    std::erase_if(arrays, [rank](const PackedArray& array) { return array.array->rank == rank; });
  }
  report.left_out = data.arrays.size() - arrays.size();
  for (const PackedArray& array : arrays) report.rounded += array.array->rank >= rounded;
  return arrays;
}

Json number(float value) {
  if (value != value) return nullptr;
  return std::strtod(fmt::format("{}", value).c_str(), nullptr);  // the shortest text that is this float
}

Json models_json(const ReportData& data) {
  Json models = Json::array();
  for (const MapModel& model : data.models) {
    Json selectors = Json::array();
    for (const MapSelector& selector : model.selectors)
      selectors.push_back({{"label", selector.label},
                           {"kind", selector.kind},
                           {"settings", selector.settings},
                           {"marked", selector.marked},
                           {"usual", usual_setting(selector)}});
    models.push_back({{"name", model.name},
                      {"layers", model.layers},
                      {"heads", model.num_heads},
                      {"samples", model.samples},
                      {"selectors", selectors}});
  }
  return models;
}

Json metrics_json(const ReportData& data) {
  constexpr const char* kBetter[] = {"higher", "lower", "neither"};
  Json metrics = Json::array();
  for (const MapMetric& metric : data.metrics)
    metrics.push_back({{"name", metric.name},
                       {"unit", metric.unit},
                       {"definition", metric.definition},
                       {"better", kBetter[static_cast<std::size_t>(metric.better)]},
                       {"settings", metric.has_settings},
                       {"share", metric.is_share},
                       {"digits", digits_of(metric.is_share)},
                       {"log", metric.logarithmic}});
  return metrics;
}

/// A field of the objects that namedRows() of format.js makes of rows.
template <class Row>
struct Field {
  const char* name;
  std::function<Json(const Row&)> value;
};

/// {columns: names, rows: values}: the names once, as there may be many rows.
template <class Row>
Json named_rows(const std::vector<Row>& rows, const std::vector<Field<Row>>& fields) {
  Json names = Json::array(), values = Json::array();
  for (const Field<Row>& field : fields) names.push_back(field.name);
  for (const Row& row : rows) {
    Json own = Json::array();
    for (const Field<Row>& field : fields) own.push_back(field.value(row));
    values.push_back(std::move(own));
  }
  return {{"columns", names}, {"rows", values}};
}

Json cells_json(const ReportData& data) {
  std::vector<Field<WorstCell>> fields = {{"model", [](const WorstCell& c) { return c.model; }},
                                          {"selector", [](const WorstCell& c) { return c.selector; }},
                                          {"setting", [](const WorstCell& c) { return c.setting; }},
                                          {"sample", [](const WorstCell& c) { return c.sample; }},
                                          {"layer", [](const WorstCell& c) { return c.layer; }},
                                          {"head", [](const WorstCell& c) { return c.head; }},
                                          {"query", [](const WorstCell& c) { return c.query_position; }},
                                          {"enough", [](const WorstCell& c) { return c.enough; }},
                                          {"tokens", [](const WorstCell& c) { return c.tokens; }},
                                          {"before", [](const WorstCell& c) { return c.tokens_before; }}};
  for (std::size_t m = 0; m < kCellMetrics.size(); ++m)
    fields.push_back({kCellMetrics[m].name, [m](const WorstCell& c) { return number(c.metrics[m]); }});
  return named_rows(data.cells, fields);
}

Json cell_metrics_json() {
  Json metrics = Json::array();
  for (const CellMetric& metric : kCellMetrics)
    metrics.push_back({{"name", metric.name},
                       {"title", metric.title},
                       {"worst", metric.worst},
                       {"share", metric.is_share},
                       {"digits", digits_of(metric.is_share)}});
  return metrics;
}

/// The place and the digits of each array, and the index of the text that has its numbers.
Json arrays_json(const std::vector<PackedArray>& arrays, Json& texts) {
  std::map<std::string_view, std::size_t> known;
  for (const PackedArray& packed : arrays)
    if (known.emplace(packed.base64, known.size()).second) texts.push_back(packed.base64);
  return named_rows<PackedArray>(
      arrays, {{"model", [](const PackedArray& p) { return p.array->model; }},
               {"sample", [](const PackedArray& p) { return p.array->sample; }},
               {"selector", [](const PackedArray& p) { return p.array->selector; }},
               {"metric", [](const PackedArray& p) { return p.array->metric; }},
               {"statistic", [](const PackedArray& p) { return static_cast<int>(p.array->statistic); }},
               {"digits", [](const PackedArray& p) { return p.digits; }},
               {"text", [&](const PackedArray& p) { return known.at(p.base64); }}});
}

}  // namespace

HtmlReport html_report(const ReportData& data, std::size_t max_bytes) {
  Json content{{"title", data.title},          {"models", models_json(data)},         {"metrics", metrics_json(data)},
               {"enough", data.enough_recall}, {"cell_metrics", cell_metrics_json()}, {"cells", cells_json(data)},
               {"colours", heat_colours()}};
  const auto json_text = [](const Json& json) { return json_in_script(json.dump()); };
  const PageParts& parts = page_parts();
  std::map<std::string_view, Html> slots = {{"title", html_text(data.title)},
                                            {"style", parts.style},
                                            {"style_hash", parts.style_hash},
                                            {"script", parts.script},
                                            {"script_hash", parts.script_hash},
                                            {"studied", html_text(data.studied)},
                                            {"facts", facts_html(data.facts)},
                                            {"findings", findings_html(data.findings, kFirstFindings)},
                                            {"overview", sections_html(data.overview)},
                                            {"map_note", {}},
                                            {"cells_note", html_text(data.cells_note)},
                                            {"figures", sections_html(data.figures)},
                                            {"figures_note", html_text(data.figures_note)},
                                            {"manifests", folded_html(data.manifests)},
                                            {"data", json_text(content)}};
  const std::size_t others =
      filled(parts.html, slots).text().size() + kBytesOfNotes + kBytesOfPlace * data.arrays.size();

  HtmlReport report;
  const std::vector<PackedArray> arrays = fit(data, max_bytes > others ? max_bytes - others : 0, report);
  Json texts = Json::array();
  content["arrays"] = arrays_json(arrays, texts);
  content["texts"] = std::move(texts);
  slots["data"] = json_text(content);
  if (report.rounded > 0)
    slots["map_note"] += html("To keep the page small, {} of {} arrays of numbers have a digit less. ", report.rounded,
                              data.arrays.size());
  if (report.left_out > 0)
    slots["map_note"] += html(
        "{} of {} arrays (metrics that matter less, single samples) are left out to keep the "
        "page small; the results file has them.",
        report.left_out, data.arrays.size());
  report.html = filled(parts.html, slots).text();
  return report;
}

}  // namespace attest
