// The formats of a results table.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/json_numbers.h"
#include "dumps/base/printable.h"
#include "experiments/cli/output/aligned_text.h"
#include "experiments/tables/results_table.h"
#include "plots/table.h"
#include "plots/utf8.h"

namespace attest {
namespace {

/// Width of a block of columns in text, so that it is not folded by most terminals.
constexpr std::size_t kTextWidth = 120;

std::string spaced(std::string text) {
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::string group_text(const TableRow& row, std::size_t g) {
  const auto* number = std::get_if<std::int64_t>(&row.groups[g]);
  return number != nullptr ? fmt::format("{}", *number) : std::get<std::string>(row.groups[g]);
}

// Text

/// Small numbers need significant digits where shares and cosines need decimals.
std::string text_of(double value, const MetricStatistic& column) {
  if (std::isnan(value)) return "-";
  if (column.statistic == CellStatistic::count) return fmt::format("{:.0f}", value);
  return column.deficit ? fmt::format("{:.3g}", value) : formatted(value, column.info.unit);
}

/// The cells that say what a row is about, first their headings.
std::vector<std::vector<std::string>> row_names(const ResultsTable& table, bool with_model) {
  std::vector<std::string> headings{"selector", "setting"};
  if (with_model) headings.insert(headings.begin(), "model");
  for (const Grouping grouping : table.by) headings.emplace_back(name_of(grouping));
  std::vector<std::vector<std::string>> names{headings};
  for (const TableRow& row : table.rows) {
    std::vector<std::string>& line = names.emplace_back();
    if (with_model) line.push_back(printable(row.model));
    line.push_back(printable(row.label));
    line.push_back(printable(setting_of_row(row.setting, row.setting_label)));
    for (std::size_t g = 0; g < table.by.size(); ++g) line.push_back(printable(group_text(row, g)));
  }
  return names;
}

/// Indices of columns that stand side by side. Columns of one metric are kept together if they fit.
std::vector<std::vector<std::size_t>> blocks_of(const ResultsTable& table, std::size_t names_width,
                                                const std::vector<std::size_t>& widths) {
  std::vector<std::vector<std::size_t>> blocks;
  std::size_t used = 0;
  for (std::size_t c = 0; c < table.columns.size();) {
    std::size_t end = c, width = 0;
    for (; end < table.columns.size() && table.columns[end].quantity() == table.columns[c].quantity(); ++end)
      width += widths[end];
    for (; c < end; ++c) {
      const bool fits = used + width <= kTextWidth || (width > kTextWidth && used + widths[c] <= kTextWidth);
      if (blocks.empty() || (!fits && !blocks.back().empty())) {
        blocks.emplace_back();
        used = names_width;
      }
      blocks.back().push_back(c);
      used += widths[c];
      width -= widths[c];
    }
  }
  return blocks;
}

std::string table_text(const ResultsTable& table, bool with_model) {
  const std::vector<std::vector<std::string>> names = row_names(table, with_model);
  std::vector<std::vector<std::string>> cells(table.columns.size());  // [column][line], headings first
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const bool first = c == 0 || table.columns[c - 1].quantity() != table.columns[c].quantity();
    cells[c] = {first ? spaced(table.columns[c].quantity()) : "", table.columns[c].statistic_name};
    for (const TableRow& row : table.rows) cells[c].push_back(text_of(row.values[c], table.columns[c]));
    std::size_t width = 0;
    for (const std::string& cell : cells[c]) width = std::max(width, characters(cell));
    widths.push_back(width + 2);
  }
  std::size_t names_width = 0;
  for (std::size_t i = 0; i < names[0].size(); ++i) {
    std::size_t width = 0;
    for (const std::vector<std::string>& line : names) width = std::max(width, characters(line[i]));
    names_width += width + 2;
  }
  std::string text;
  for (const std::vector<std::size_t>& block : blocks_of(table, names_width, widths)) {
    std::vector<std::vector<std::string>> lines;
    for (std::size_t line = 0; line < table.rows.size() + 2; ++line) {
      lines.push_back(line == 0 ? std::vector<std::string>(names[0].size()) : names[line - 1]);
      for (const std::size_t c : block) lines.back().push_back(cells[c][line]);
    }
    text += (text.empty() ? "" : "\n") + aligned_text(lines, names[0].size());
  }
  return text;
}

// csv, Markdown and LaTeX

int decimals_of(const MetricStatistic& column) {
  if (column.statistic == CellStatistic::count) return 0;
  if (column.deficit) return 6;
  return column.info.unit == "cosine" ? 5 : 4;
}

std::string heading_of(const MetricStatistic& column) {
  const bool has_unit = column.info.unit == "nats" && column.statistic != CellStatistic::count;
  return fmt::format("{} {}{}", spaced(column.quantity()), column.statistic_name, has_unit ? " (nats)" : "");
}

Table plots_table(const ResultsTable& table, bool for_programs, bool with_model) {
  std::vector<ColumnOf<TableRow>> columns;
  const auto add = [&](std::string name, auto&& of_row) {
    columns.push_back({{std::move(name), kText}, [of_row](const TableRow& r) { return printable(of_row(r)); }});
  };
  if (for_programs || with_model) add("model", [](const TableRow& r) { return r.model; });
  add(for_programs ? "label" : "selector", [](const TableRow& r) { return r.label; });
  if (for_programs) {
    add("selector", [](const TableRow& r) { return r.selector; });
    add("setting", [](const TableRow& r) { return r.setting; });
    add("setting_label", [](const TableRow& r) { return r.setting_label; });
  } else {
    add("setting", [](const TableRow& r) { return setting_of_row(r.setting, r.setting_label); });
  }
  for (std::size_t g = 0; g < table.by.size(); ++g)
    add(std::string(name_of(table.by[g])), [g](const TableRow& r) { return group_text(r, g); });
  for (std::size_t c = 0; c < table.columns.size(); ++c)
    columns.push_back({{.name = table.columns[c].name(),
                        .heading = heading_of(table.columns[c]),
                        .decimals = decimals_of(table.columns[c])},
                       [c](const TableRow& r) { return r.values[c]; }});
  return make_table(table.rows, columns);
}

// JSON

std::string_view unit_of(const MetricStatistic& column) {
  return column.statistic == CellStatistic::count ? "cells" : column.info.unit;
}

Json json_of(const ResultsTable& table) {
  Json columns = Json::array(), rows = Json::array();
  for (const MetricStatistic& column : table.columns)
    columns.push_back({{"name", column.name()},
                       {"metric", column.metric},
                       {"deficit", column.deficit},
                       {"statistic", column.statistic_name},
                       {"unit", unit_of(column)}});
  for (const TableRow& row : table.rows) {
    Json object = {{"model", row.model},
                   {"label", row.label},
                   {"selector", row.selector},
                   {"setting", row.setting},
                   {"setting_label", row.setting_label}};
    for (std::size_t g = 0; g < table.by.size(); ++g)
      std::visit([&](const auto& value) { object[std::string(name_of(table.by[g]))] = value; }, row.groups[g]);
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      object[table.columns[c].name()] = finite_or_null(row.values[c]);
    rows.push_back(std::move(object));
  }
  return {{"columns", columns},
          {"rows", rows},
          {"dense_layers", table.dense_layers},
          {"with_dense_layers", table.with_dense_layers},
          {"scan_not_counted", table.scan_not_counted}};
}

}  // namespace

std::string formatted_table(const ResultsTable& table, const std::string& format, bool with_model) {
  with_model = with_model || several_models(table.rows);
  if (format == "text") return table_text(table, with_model);
  if (format == "json") return json_of(table).dump(2) + "\n";
  std::ostringstream out;
  if (format == "csv") write_csv(plots_table(table, true, with_model), out);
  if (format == "md") write_markdown(plots_table(table, false, with_model), out);
  if (format == "latex") write_latex(plots_table(table, false, with_model), out);
  return out.str();
}

std::string table_notes(const ResultsTable& table) {
  std::string text;
  if (!table.dense_layers.empty())
    text = table.with_dense_layers
               ? fmt::format("Dense layers ({}) are included.", join(table.dense_layers, ", "))
               : fmt::format(
                     "Layers that are dense in some selector ({}) are left out; --with-dense-layers includes them.",
                     join(table.dense_layers, ", "));
  const bool shows_io =
      std::ranges::any_of(table.columns, [](const MetricStatistic& c) { return c.metric == "io_ratio"; });
  if (shows_io && !table.scan_not_counted.empty())
    text += fmt::format("{}io_ratio does not count the scan of {} (scan_bytes is 0).", text.empty() ? "" : " ",
                        printable(join(table.scan_not_counted, ", ")));
  return text;
}

}  // namespace attest
