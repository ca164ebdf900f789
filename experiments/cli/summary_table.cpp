#include "experiments/cli/summary_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace attest {
namespace {

using json = nlohmann::ordered_json;

std::string number(double value, int digits) { return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits); }

std::string per_cent(double ratio) { return std::isnan(ratio) ? "-" : fmt::format("{:.2f}%", 100 * ratio); }

std::string setting_text(const SummaryRow& row) {
  return row.setting == "none" ? "" : fmt::format("{} {}", row.setting, row.setting_label);
}

std::vector<std::string> headings(bool has_spans) {
  std::vector<std::string> names{"selector", "setting", "recall", "min"};
  if (has_spans) names.insert(names.end(), {"span recall", "min"});
  names.insert(names.end(), {"max LSE err", "keep", "io", "Spearman", "salient hits"});
  return names;
}

std::vector<std::string> cells(const SummaryRow& row, bool has_spans) {
  std::vector<std::string> texts{row.label, setting_text(row), number(row.mean_recall, 5), number(row.min_recall, 5)};
  if (has_spans) {
    texts.push_back(number(row.mean_span_recall, 5));
    texts.push_back(number(row.min_span_recall, 5));
  }
  texts.insert(texts.end(), {number(row.max_lse_error, 4), per_cent(row.keep_ratio), per_cent(row.io_ratio),
                             number(row.spearman, 4), per_cent(row.salient_hit_rate)});
  return texts;
}

std::string averaged_text(const Summary& summary) {
  if (!summary.has_cells && !summary.dense_layers.empty())
    return fmt::format(
        "No layer is left to average: each is dense in some selector ({}); --with-dense-layers includes them.",
        fmt::join(summary.dense_layers, ", "));
  if (!summary.has_cells) return "No layer was studied, so there is nothing to average.";
  std::string text = "Means over all layers, queries and heads; min and max over the same cells.";
  if (summary.has_spans) text += " Span recall: where exact attention puts 0.3 or more on the evidence.";
  if (summary.dense_layers.empty()) return text;
  if (summary.with_dense_layers)
    return text + fmt::format(" Dense layers ({}) are included.", fmt::join(summary.dense_layers, ", "));
  return text +
         fmt::format(" Layers that are dense in some selector ({}) are left out; --with-dense-layers includes them.",
                     fmt::join(summary.dense_layers, ", "));
}

json value(double x) { return std::isnan(x) ? json(nullptr) : json(x); }

}  // namespace

std::string summary_table(const Summary& summary) {
  std::vector<std::vector<std::string>> lines{headings(summary.has_spans)};
  for (const SummaryRow& row : summary.rows) lines.push_back(cells(row, summary.has_spans));
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const std::vector<std::string>& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());

  std::string text;
  for (const std::vector<std::string>& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i)
      row += i < 2 ? fmt::format("{:<{}}  ", line[i], widths[i]) : fmt::format("{:>{}}  ", line[i], widths[i]);
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text + averaged_text(summary) + "\n";
}

nlohmann::ordered_json summary_json(const Summary& summary) {
  json rows = json::array();
  for (const SummaryRow& row : summary.rows) {
    json object = {{"label", row.label},
                   {"selector", row.selector},
                   {"setting", row.setting},
                   {"setting_label", row.setting_label},
                   {"mean_recall", value(row.mean_recall)},
                   {"min_recall", value(row.min_recall)},
                   {"max_lse_error", value(row.max_lse_error)},
                   {"keep_ratio", value(row.keep_ratio)},
                   {"io_ratio", value(row.io_ratio)},
                   {"spearman", value(row.spearman)},
                   {"salient_hit_rate", value(row.salient_hit_rate)}};
    if (summary.has_spans) {
      object["mean_span_recall"] = value(row.mean_span_recall);
      object["min_span_recall"] = value(row.min_span_recall);
    }
    rows.push_back(std::move(object));
  }
  return {{"rows", rows},
          {"dense_layers", summary.dense_layers},
          {"with_dense_layers", summary.with_dense_layers},
          {"dropped_nothing", summary.dropped_nothing}};
}

}  // namespace attest
