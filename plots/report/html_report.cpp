// Fills the page: static parts, the data for its script, and arrays as far as they fit.
#include "plots/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
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

struct PackedArray {
  const MapArray* array = nullptr;
  int digits = 0;
  std::string base64;
};

std::vector<PackedArray> pack(const ReportData& data, int digits_less) {
  std::vector<PackedArray> packed;
  for (const MapArray& array : data.arrays) {
    const MapMetric& metric = data.metrics.at(static_cast<std::size_t>(array.metric));
    const int digits = (metric.is_share ? kShareDigits : kDigits) - digits_less;
    packed.push_back({&array, digits, pack_values(array.values, digits, metric.is_share)});
  }
  return packed;
}

std::size_t bytes_of(const std::vector<PackedArray>& arrays) {
  std::size_t bytes = 0;
  for (const PackedArray& array : arrays) bytes += array.base64.size();
  return bytes;
}

/// Leaves out the arrays of the highest ranks until the others take at most `most_bytes`. Returns how many.
std::size_t fit(std::vector<PackedArray>& arrays, std::size_t most_bytes) {
  const std::size_t all = arrays.size();
  while (bytes_of(arrays) > most_bytes) {
    int highest = 0;
    for (const PackedArray& array : arrays) highest = std::max(highest, array.array->rank);
    if (highest == 0) break;
    std::erase_if(arrays, [&](const PackedArray& array) { return array.array->rank == highest; });
  }
  return all - arrays.size();
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

Json arrays_json(const std::vector<PackedArray>& arrays) {
  Json list = Json::array();
  for (const PackedArray& packed : arrays) {
    const MapArray& a = *packed.array;
    list.push_back(
        {a.model, a.sample, a.selector, a.metric, static_cast<int>(a.statistic), packed.digits, packed.base64});
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

HtmlReport html_report(const ReportData& data, std::size_t array_bytes) {
  HtmlReport report;
  std::vector<PackedArray> arrays = pack(data, 0);
  if (bytes_of(arrays) > array_bytes) {
    arrays = pack(data, report.digits_less = 1);
    report.left_out = fit(arrays, array_bytes);
  }
  report.array_bytes = bytes_of(arrays);
  std::string map_note;
  if (report.digits_less > 0) map_note += "To keep the page small, its numbers have a digit less than usual. ";
  if (report.left_out > 0)
    map_note += fmt::format(
        "{} of {} arrays (metrics that matter less, single samples) are left out for the same "
        "reason; the results file has them.",
        report.left_out, data.arrays.size());

  const Json content{{"title", data.title},          {"models", models_json(data)}, {"metrics", metrics_json(data)},
                     {"enough", data.enough_recall}, {"cells", cells_json(data)},   {"arrays", arrays_json(arrays)}};
  const PageParts& parts = page_parts();
  report.html = filled(
      parts.html, {{"title", html_text(data.title)},
                   {"style", std::string(parts.style)},
                   {"style_hash", std::string(parts.style_hash)},
                   {"script", std::string(parts.script)},
                   {"script_hash", std::string(parts.script_hash)},
                   {"studied", html_text(data.studied)},
                   {"facts", facts_html(data)},
                   {"findings", findings_html(data.findings)},
                   {"overview", sections_html(data.overview)},
                   {"map_note", html_text(map_note)},
                   {"cells_note", html_text(data.cells_note)},
                   {"figures", sections_html(data.figures)},
                   {"figures_note", html_text(data.figures_note)},
                   {"manifests", manifests_html(data)},
                   {"data", json_in_script(content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))}});
  return report;
}

}  // namespace attest
