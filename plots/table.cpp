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

std::string csv_field(double value) {
  if (std::isnan(value)) return "nan";  // fmt prints the sign bit of a NaN
  return fmt::format("{:.10g}", value);
}

std::string printed(double value, int decimals) {
  if (std::isnan(value)) return "-";
  return fmt::format("{:.{}f}", value, decimals);
}

std::string printed_cell(const Column& column, std::size_t row) {
  return column.kind == kText ? column.texts[row] : printed(column.numbers[row], column.decimals);
}

const std::string& heading_of(const Column& column) { return column.heading.empty() ? column.name : column.heading; }

/// The results of `cell(column)` for all columns, joined.
std::string joined(const Table& table, std::string_view separator,
                   const std::function<std::string(const Column&)>& cell) {
  std::string line;
  for (const Column& column : table.columns()) {
    if (&column != &table.columns().front()) line += separator;
    line += cell(column);
  }
  return line;
}

}  // namespace

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
  out << joined(table, ",", [](const Column& c) { return csv_field(c.name); }) << '\n';
  for (std::size_t row = 0; row < table.rows(); ++row) {
    out << joined(table, ",", [&, row](const Column& c) {
      if (c.kind == Column::Kind::number) return csv_field(c.numbers[row]);
      return csv_field(fit ? fit(c.name, c.texts[row]) : c.texts[row]);
    }) << '\n';
  }
}

void write_markdown(const Table& table, std::ostream& out) {
  out << "| " << joined(table, " | ", [](const Column& c) { return markdown_cell(heading_of(c)).text(); }) << " |\n";
  out << '|' << joined(table, "|", [](const Column& c) { return c.kind == kText ? "---" : "--:"; }) << "|\n";
  for (std::size_t row = 0; row < table.rows(); ++row) {
    out << "| " << joined(table, " | ", [row](const Column& c) {
      return c.kind == kText ? markdown_cell(c.texts[row]).text() : printed_cell(c, row);
    }) << " |\n";
  }
}

void write_latex(const Table& table, std::ostream& out) {
  std::string alignment;
  for (const Column& column : table.columns()) alignment += column.kind == kText ? 'l' : 'r';
  out << "\\begin{tabular}{" << alignment << "}\n\\toprule\n";
  out << joined(table, " & ", [](const Column& c) { return latex_text(heading_of(c)).text(); }) << " \\\\\n\\midrule\n";
  for (std::size_t row = 0; row < table.rows(); ++row)
    out << joined(table, " & ", [row](const Column& c) { return latex_text(printed_cell(c, row)).text(); })
        << " \\\\\n";
  out << "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace attest
