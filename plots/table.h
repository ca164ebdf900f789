// A table stored by columns: the data of every figure and table of the paper.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace attest {

/// One column. A column of numbers holds NaN where a value is not defined.
struct Column {
  enum class Kind { text, number };

  std::string name;  ///< in the csv: lower case, words joined by '_'
  Kind kind = Kind::number;
  std::string heading = {};             ///< in a printed table, with unit; empty: the name
  int decimals = 3;                     ///< in a printed table; the csv has ten digits, and all of a whole number
  std::vector<std::string> texts = {};  ///< [rows] of a text column
  std::vector<double> numbers = {};     ///< [rows] of a number column
};
inline constexpr Column::Kind kText = Column::Kind::text, kNumber = Column::Kind::number;

/// Rows of equal width in named columns. Misuse (a cell of the other kind, an unknown name) throws std::logic_error.
class Table {
 public:
  using Cell = std::variant<std::string, double>;

  explicit Table(std::vector<Column> columns);

  void add_row(std::vector<Cell> cells);

  std::size_t rows() const { return rows_; }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<double>& numbers(std::string_view column) const;
  const std::vector<std::string>& texts(std::string_view column) const;

 private:
  const Column& find(std::string_view name, Column::Kind kind) const;

  std::vector<Column> columns_;
  std::size_t rows_ = 0;
};

/// A column, and the function that gives its cell for a row of type Row.
template <class Row>
struct ColumnOf {
  Column column;
  std::function<Table::Cell(const Row&)> cell;
};

template <class Row>
Table make_table(const std::vector<Row>& rows, const std::vector<ColumnOf<Row>>& columns) {
  std::vector<Column> headers;
  for (const ColumnOf<Row>& column : columns) headers.push_back(column.column);
  Table table(std::move(headers));
  for (const Row& row : rows) {
    std::vector<Table::Cell> cells;
    for (const ColumnOf<Row>& column : columns) cells.push_back(column.cell(row));
    table.add_row(std::move(cells));
  }
  return table;
}

/// How a number is written, also one that is not defined or infinite.
enum class NumberStyle {
  csv,      ///< ten significant digits, all of a whole number; "nan", "inf"
  printed,  ///< the column's decimals; "-", "inf"
  page,     ///< the column's decimals, six significant digits where it has no heading; "–", "∞"
};
std::string number_text(double value, const Column& column, NumberStyle style);

/// Gives the text to write of a cell of a column.
using FitText = std::function<std::string(const std::string& column, const std::string& text)>;

/// Quoted as in RFC 4180, with one header line; lines end in a line feed. Numbers as NumberStyle::csv.
void write_csv(const Table& table, std::ostream& out, const FitText& fit = {});

/// A pipe table with right-aligned numbers, as NumberStyle::printed.
void write_markdown(const Table& table, std::ostream& out);

/// A booktabs tabular without its float: \toprule ... \bottomrule. Numbers as NumberStyle::printed.
void write_latex(const Table& table, std::ostream& out);

}  // namespace attest
