// Table, and its output as csv, Markdown and LaTeX.
#include "plots/table.h"

#include <fmt/core.h>

#include <cmath>
#include <functional>
#include <ostream>
#include <stdexcept>

#include "plots/code.h"

namespace attest {
namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string printed_cell(const Column& column, std::size_t row) {
  return column.kind == kText ? column.texts[row] : number_text(column.numbers[row], column, NumberStyle::printed);
}

const std::string& heading_of(const Column& column) { return column.heading.empty() ? column.name : column.heading; }

/// The results of `cell(column)` for all columns, joined.
std::string line_of(const Table& table, std::string_view separator,
                    const std::function<std::string(const Column&)>& cell) {
  std::string line;
  for (const Column& column : table.columns()) {
    if (&column != &table.columns().front()) line += separator;
    line += cell(column);
  }
  return line;
}

}  // namespace

std::string number_text(double value, const Column& column, NumberStyle style) {
  const bool page = style == NumberStyle::page;
  if (std::isnan(value)) return style == NumberStyle::csv ? "nan" : page ? "–" : "-";
  if (std::isinf(value) && page) return value > 0 ? "∞" : "−∞";
  if (style == NumberStyle::csv) {
    constexpr double kWhole = 0x1p53;  // up to here doubles hold every whole number
    const bool whole = std::abs(value) < kWhole && value == std::trunc(value);
    return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.10g}", value);
  }
  return page && column.heading.empty() ? fmt::format("{:.6g}", value) : fmt::format("{:.{}f}", value, column.decimals);
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<Cell> cells) {
  if (cells.size() != columns_.size())
    throw std::logic_error(fmt::format("a row of {} cells in a table of {} columns", cells.size(), columns_.size()));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool is_text = std::holds_alternative<std::string>(cells[i]);
    if (is_text != (columns_[i].kind == kText))
      throw std::logic_error(fmt::format("column '{}' got a cell of the other kind", columns_[i].name));
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (auto* text = std::get_if<std::string>(&cells[i]))
      columns_[i].texts.push_back(std::move(*text));
    else
      columns_[i].numbers.push_back(std::get<double>(cells[i]));
  }
  ++rows_;
}

const Column& Table::find(std::string_view name, Column::Kind kind) const {
  for (const Column& column : columns_)
    if (column.name == name && column.kind == kind) return column;
  throw std::logic_error(fmt::format("no {} column '{}'", kind == kText ? "text" : "number", name));
}

const std::vector<double>& Table::numbers(std::string_view column) const {
  return find(column, Column::Kind::number).numbers;
}

const std::vector<std::string>& Table::texts(std::string_view column) const { return find(column, kText).texts; }

void write_csv(const Table& table, std::ostream& out, const FitText& fit) {
  out << line_of(table, ",", [](const Column& c) { return csv_field(c.name); }) << '\n';
  for (std::size_t row = 0; row < table.rows(); ++row) {
    out << line_of(table, ",", [&, row](const Column& c) {
      if (c.kind == Column::Kind::number) return number_text(c.numbers[row], c, NumberStyle::csv);
      return csv_field(fit ? fit(c.name, c.texts[row]) : c.texts[row]);
    }) << '\n';
  }
}

void write_markdown(const Table& table, std::ostream& out) {
  out << "| " << line_of(table, " | ", [](const Column& c) { return markdown_cell(heading_of(c)).text(); }) << " |\n";
  out << '|' << line_of(table, "|", [](const Column& c) { return c.kind == kText ? "---" : "--:"; }) << "|\n";
  for (std::size_t row = 0; row < table.rows(); ++row) {
    out << "| " << line_of(table, " | ", [row](const Column& c) {
      return c.kind == kText ? markdown_cell(c.texts[row]).text() : printed_cell(c, row);
    }) << " |\n";
  }
}

void write_latex(const Table& table, std::ostream& out) {
  std::string alignment;
  for (const Column& column : table.columns()) alignment += column.kind == kText ? 'l' : 'r';
  out << "\\begin{tabular}{" << alignment << "}\n\\toprule\n";
  out << line_of(table, " & ", [](const Column& c) { return latex_text(heading_of(c)).text(); })
      << " \\\\\n\\midrule\n";
  for (std::size_t row = 0; row < table.rows(); ++row)
    out << line_of(table, " & ", [row](const Column& c) { return latex_text(printed_cell(c, row)).text(); })
        << " \\\\\n";
  out << "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace attest
