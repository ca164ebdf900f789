// The table of `attest table`: statistics of cells by selector and setting, and by layer, head, task, length or sample.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "analysis/statistics/sample_cells.h"
#include "dumps/base/enum_names.h"
#include "experiments/tables/table_columns.h"

namespace attest {

/// The quantity by which the rows of a selector and setting are split. length: the sample's tokens, rounded to a power
/// of two.
enum class Grouping : std::uint8_t { layer, head, task, length, sample };
inline constexpr EnumName<Grouping> kGroupingNames[] = {{Grouping::layer, "layer"},
                                                        {Grouping::head, "head"},
                                                        {Grouping::task, "task"},
                                                        {Grouping::length, "length"},
                                                        {Grouping::sample, "sample"}};
constexpr std::string_view name_of(Grouping grouping) { return name_in(kGroupingNames, grouping); }

struct TableRequest {
  std::vector<MetricStatistic> columns;
  std::vector<Grouping> by;
  std::vector<std::string> selectors;  ///< labels, of which one with commas may be in parts; empty: all
  std::vector<std::string> settings;   ///< as typed; empty: all. Selectors without settings always have their rows
  bool with_dense_layers = false;      ///< else layers that are dense in one of `selectors` are left out of all rows
  int threads = 1;
};

/// One value per grouping; numbers sort before texts and by size.
using GroupKey = std::vector<std::variant<std::int64_t, std::string>>;

struct TableRow {
  std::string model, label, selector;
  std::string setting, setting_label;  ///< "delta" and "5"; "none" and ""
  GroupKey groups;
  std::vector<double> values;  ///< one per column; NaN: not defined
};

struct ResultsTable {
  std::vector<MetricStatistic> columns;
  std::vector<Grouping> by;
  std::vector<TableRow> rows{};  ///< by model, selector, setting, group
  bool with_dense_layers = false;
  std::set<int> dense_layers{};                 ///< of any model
  std::vector<std::string> scan_not_counted{};  ///< labels of selectors whose io_ratio lacks the bytes of the estimate
};

/// Files of one model are pooled, models never are. Throws UsageError for a selector or setting that is not there, or a
/// column that the grouping cannot split, InputError if no cell is left or no selector has a column's metric.
ResultsTable make_results_table(ResultsFiles files, TableRequest request);

inline const std::vector<std::string> kTableFormats = {"text", "csv", "md", "latex", "json"};

/// `format` is one of kTableFormats. `with_model`: text, Markdown and LaTeX have a column of models even if there is
/// only one; csv and JSON always have it.
std::string formatted_table(const ResultsTable& table, const std::string& format, bool with_model);

/// Sentences on what was left out or cannot be read from the numbers; may be empty.
std::string table_notes(const ResultsTable& table);

}  // namespace attest
