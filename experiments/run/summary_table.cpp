// Formats the summary of a study as a table and as JSON.
#include "experiments/run/summary_table.h"

#include <fmt/core.h>

#include <vector>

#include "analysis/statistics/aggregate.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/json_numbers.h"
#include "dumps/base/printable.h"
#include "experiments/cli/output/aligned_text.h"

namespace attest {
namespace {

/// The columns that say what a row is about.
std::vector<std::string> row_names(const Summary& summary) {
  std::vector<std::string> names{"selector", "setting"};
  if (several_models(summary.rows)) names.insert(names.begin(), "model");
  return names;
}

std::vector<std::string> headings(const Summary& summary) {
  std::vector<std::string> names = row_names(summary);
  for (const SummaryHeading& column : summary.columns) names.emplace_back(column.heading);
  return names;
}

std::vector<std::string> cells(const SummaryRow& row, const Summary& summary) {
  std::vector<std::string> texts{printable(row.label), printable(setting_of_row(row.setting, row.setting_label))};
  if (several_models(summary.rows)) texts.insert(texts.begin(), printable(row.model));
  for (std::size_t i = 0; i < row.values.size(); ++i)
    texts.push_back(formatted(row.values[i], summary.columns[i].unit));
  return texts;
}

std::string averaged_text(const Summary& summary) {
  if (!summary.has_cells && !summary.dense_layers.empty())
    return fmt::format(
        "No layer is left to average: each is dense in some selector ({}); --with-dense-layers includes them.",
        join(summary.dense_layers, ", "));
  if (!summary.has_cells) return "No layer was studied, so there is nothing to average.";
  std::string text = fmt::format("Means over all layers, queries and heads{}; min and max over the same cells.",
                                 several_models(summary.rows) ? " of a model" : "");
  if (summary.has_spans)
    text += fmt::format(
        " Span recall is over the cells alone where exact attention puts {} or more of its mass on the evidence spans.",
        kRetrievalMass);
  if (!summary.scan_not_counted.empty())
    text += fmt::format(" io does not count the scan of {} (scan_bytes is 0).", join(summary.scan_not_counted, ", "));
  if (summary.dense_layers.empty()) return text;
  if (summary.with_dense_layers)
    return text + fmt::format(" Dense layers ({}) are included.", join(summary.dense_layers, ", "));
  return text + fmt::format(
                    " Layers that are dense in some selector ({}) count in keep and io alone; --with-dense-layers "
                    "includes them.",
                    join(summary.dense_layers, ", "));
}

}  // namespace

std::string summary_table(const Summary& summary) {
  std::vector<std::vector<std::string>> lines{headings(summary)};
  for (const SummaryRow& row : summary.rows) lines.push_back(cells(row, summary));
  return aligned_text(lines, row_names(summary).size()) + averaged_text(summary) + "\n";
}

Json summary_json(const Summary& summary) {
  Json rows = Json::array();
  for (const SummaryRow& row : summary.rows) {
    Json object = {{"model", row.model},
                   {"label", row.label},
                   {"selector", row.selector},
                   {"setting", row.setting},
                   {"setting_label", row.setting_label}};
    for (std::size_t i = 0; i < row.values.size(); ++i) object[summary.columns[i].key] = finite_or_null(row.values[i]);
    rows.push_back(std::move(object));
  }
  return {{"rows", rows},
          {"dense_layers", summary.dense_layers},
          {"with_dense_layers", summary.with_dense_layers},
          {"dropped_nothing", summary.dropped_nothing},
          {"scan_not_counted", summary.scan_not_counted}};
}

}  // namespace attest
