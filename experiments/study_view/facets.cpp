// Joins tables and panels of several studies.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "experiments/study_view/figure_run.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

constexpr std::size_t kMaxPanels = 12;

/// The curve's name with that of its study.
std::string curve_of(const std::string& study, const std::string& curve) { return curve_name(study) + ": " + curve; }

/// Appends `rows`, a table of the same columns, to `table`, which has a column `study` before them.
void append(Table& table, const Table& rows, const std::string& study) {
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    std::vector<Table::Cell> cells;
    for (const Column& column : table.columns()) {
      if (column.name == "study") {
        cells.emplace_back(display_name(study));
      } else if (column.kind == kText) {
        const std::string& text = rows.texts(column.name)[row];
        cells.emplace_back(column.name == kCurveColumn ? curve_of(study, text) : text);
      } else {
        cells.emplace_back(rows.numbers(column.name)[row]);
      }
    }
    table.add_row(std::move(cells));
  }
}

Table with_study_column(const Table& table) {
  std::vector<Column> columns = {{.name = "study", .kind = kText}};
  for (const Column& column : table.columns())
    columns.push_back({column.name, column.kind, column.heading, column.decimals});
  return Table(columns);
}

/// The panels of `figure` as the next row of `whole`. Labels of curves stay, so that the legend has each once.
void append_panels(Figure& whole, Figure figure, const std::string& study, bool last) {
  const auto columns = static_cast<std::size_t>(figure.columns);
  const std::size_t rows = (figure.panels.size() + columns - 1) / columns;
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    Panel& panel = figure.panels[i];
    if (i == 0) panel.title = fmt::format("{} {}", display_name(study), panel.title);
    for (Series& series : panel.series) series.curve = curve_of(study, series.curve.text());
    const bool same_range = panel.x.low && panel.x.high;  // else every study has a range of its own
    if (rows == 1 && same_range) panel.show_x = panel.show_x && last;
    whole.panels.push_back(std::move(panel));
  }
  // A study begins a new row; panels without series fill up the row before.
  while (!last && whole.panels.size() % columns != 0)
    whole.panels.push_back({.title = {}, .x = {}, .y = {}, .series = {}});
}

}  // namespace

bool can_be_facets(const std::vector<StudyResult>& results) {
  std::map<std::string, std::size_t> panels;
  for (const StudyResult& result : results)
    for (const Figure& figure : result.result.figures) panels[figure.name] += figure.panels.size();
  return std::ranges::all_of(panels, [](const auto& entry) { return entry.second <= kMaxPanels; });
}

ExperimentResult facets(std::vector<StudyResult> results) {
  ExperimentResult whole;
  for (StudyResult& one : results) {
    const bool last = &one == &results.back();
    for (Figure& figure : one.result.figures) {
      auto known = std::ranges::find(whole.figures, figure.name, &Figure::name);
      if (known == whole.figures.end()) {
        Figure empty = figure;
        empty.panels.clear();
        empty.data = with_study_column(figure.data);
        known = whole.figures.insert(whole.figures.end(), std::move(empty));
      } else {
        known->caption += " " + figure.caption;
      }
      append(known->data, figure.data, one.study);
      append_panels(*known, std::move(figure), one.study, last);
    }
    for (NamedTable& table : one.result.tables) {
      auto known = std::ranges::find(whole.tables, table.name, &NamedTable::name);
      if (known == whole.tables.end())
        known = whole.tables.insert(whole.tables.end(), {table.name, table.caption, with_study_column(table.data)});
      else
        known->caption += " " + table.caption;
      append(known->data, table.data, one.study);
    }
    for (Finding& finding : one.result.findings) {
      finding.text = fmt::format("{}: {}", one.study, finding.text);
      finding.study = one.study;
      whole.findings.push_back(std::move(finding));
    }
  }
  return whole;
}

}  // namespace attest
