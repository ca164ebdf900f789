// Fills the page: static parts, the data for its script, and arrays as far as they fit.
#include "plots/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "plots/report/packed_values.h"
#include "plots/report/page_parts.h"
#include "plots/report/page_text.h"
#include "plots/report/static_parts.h"

namespace attest {
namespace {

using Json = nlohmann::ordered_json;

/// Digits that are shown; of a share, of what is missing to 1.
constexpr int kShareDigits = 3, kDigits = 4;

/// What the page has besides, at most: a place in the lists of arrays, notes on the arrays.
constexpr std::size_t kBytesBetweenArrays = 3, kBytesOfPlace = 40, kBytesOfNotes = 400;

/// The others are folded: these are the first screen.
constexpr std::size_t kFirstFindings = 7;

struct PackedArray {
  const MapArray* array = nullptr;
  int digits = 0;
  std::string base64;
};

PackedArray pack(const ReportData& data, const MapArray& array, int digits_less) {
  const MapMetric& metric = data.metrics.at(static_cast<std::size_t>(array.metric));
  const int digits = (metric.is_share ? kShareDigits : kDigits) - digits_less;
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

/// Arrays that take at most `most_bytes`, if those of rank 0 do: first with a digit less, from the highest rank down to
/// 0, then without the highest ranks.
std::vector<PackedArray> fit(const ReportData& data, std::size_t most_bytes, HtmlReport& report) {
  std::vector<PackedArray> arrays;
  std::set<int, std::greater<>> ranks;
  for (const MapArray& array : data.arrays) {
    arrays.push_back(pack(data, array, 0));
    ranks.insert(array.rank);
  }
  int rounded = INT_MAX;
  for (const int rank : ranks) {
    if (bytes_of(arrays) <= most_bytes) break;
    for (PackedArray& array : arrays)
      if (array.array->rank == rank) array = pack(data, *array.array, 1);
    rounded = rank;
  }
  for (const int rank : ranks) {
    if (rank == 0 || bytes_of(arrays) <= most_bytes) break;
    std::erase_if(arrays, [rank](const PackedArray& array) { return array.array->rank == rank; });
  }
  report.left_out = data.arrays.size() - arrays.size();
  for (const PackedArray& array : arrays) report.rounded += array.array->rank >= rounded;
  return arrays;
}

Json number(float value) {
  if (value != value) return nullptr;
  return std::stod(fmt::format("{}", value));  // the shortest text that is this float
}

Json models_json(const ReportData& data) {
  Json models = Json::array();
  for (const MapModel& model : data.models) {
    Json selectors = Json::array();
    for (const MapSelector& selector : model.selectors)
      selectors.push_back({{"label", selector.label},
                           {"kind", selector.kind},
                           {"settings", selector.settings},
                           {"marked", selector.marked}});
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
                       {"log", metric.logarithmic}});
  return metrics;
}

Json cells_json(const ReportData& data) {
  Json cells = Json::array();
  for (const WorstCell& cell : data.cells)
    cells.push_back({cell.model, cell.selector, cell.setting, cell.sample, cell.layer, cell.head, cell.query_position,
                     number(cell.recall), number(cell.lse_error), number(cell.mass_recall), cell.enough, cell.tokens,
                     cell.tokens_before});
  return cells;
}

/// Each array's place and digits, and which of the texts has its numbers.
Json arrays_json(const std::vector<PackedArray>& arrays, Json& texts) {
  std::map<std::string_view, std::size_t> known;
  Json list = Json::array();
  for (const PackedArray& packed : arrays) {
    const MapArray& a = *packed.array;
    const auto [text, is_new] = known.emplace(packed.base64, known.size());
    if (is_new) texts.push_back(packed.base64);
    list.push_back(
        {a.model, a.sample, a.selector, a.metric, static_cast<int>(a.statistic), packed.digits, text->second});
  }
  return list;
}

/// Replaces each {{slot}} of `page` by its text. What a text contains is not looked at again.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& slots) {
  std::string result;
  for (;;) {
    const std::size_t begin = page.find("{{");
    const std::size_t end = page.find("}}", begin);
    if (begin == page.npos || end == page.npos) return result.append(page);
    result.append(page.substr(0, begin)).append(slots.at(page.substr(begin + 2, end - begin - 2)));
    page.remove_prefix(end + 2);
  }
}

std::string sections_html(const std::vector<ReportSection>& sections) {
  std::string text;
  for (const ReportSection& section : sections) text += section_html(section);
  return text;
}

}  // namespace

HtmlReport html_report(const ReportData& data, std::size_t most_bytes) {
  Json content{{"title", data.title},
               {"models", models_json(data)},
               {"metrics", metrics_json(data)},
               {"enough", data.enough_recall},
               {"cells", cells_json(data)}};
  const auto json_text = [](const Json& json) {
    return json_in_script(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  };
  const PageParts& parts = page_parts();
  std::map<std::string_view, std::string> slots = {{"title", html_text(data.title)},
                                                   {"style", std::string(parts.style)},
                                                   {"style_hash", std::string(parts.style_hash)},
                                                   {"script", std::string(parts.script)},
                                                   {"script_hash", std::string(parts.script_hash)},
                                                   {"studied", html_text(data.studied)},
                                                   {"facts", facts_html(data)},
                                                   {"findings", findings_html(data.findings, kFirstFindings)},
                                                   {"overview", sections_html(data.overview)},
                                                   {"map_note", ""},
                                                   {"cells_note", html_text(data.cells_note)},
                                                   {"figures", sections_html(data.figures)},
                                                   {"figures_note", html_text(data.figures_note)},
                                                   {"manifests", manifests_html(data)},
                                                   {"data", json_text(content)}};
  const std::size_t others = filled(parts.html, slots).size() + kBytesOfNotes + kBytesOfPlace * data.arrays.size();

  HtmlReport report;
  const std::vector<PackedArray> arrays = fit(data, most_bytes > others ? most_bytes - others : 0, report);
  Json texts = Json::array();
  content["arrays"] = arrays_json(arrays, texts);
  content["texts"] = std::move(texts);
  slots["data"] = json_text(content);
  if (report.rounded > 0)
    slots["map_note"] += fmt::format("To keep the page small, {} of {} arrays of numbers have a digit less. ",
                                     report.rounded, data.arrays.size());
  if (report.left_out > 0)
    slots["map_note"] += fmt::format(
        "{} of {} arrays (metrics that matter less, single samples) are left out to keep the "
        "page small; the results file has them.",
        report.left_out, data.arrays.size());
  report.html = filled(parts.html, slots);
  return report;
}

}  // namespace attest
