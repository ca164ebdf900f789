// Joins tables and panels of several studies.
#include "experiments/study_view/facets.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "dumps/base/join.h"
#include "dumps/base/text_parts.h"
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

/// The panels of `figure` as the next rows of `whole`. Labels of curves stay, so that the legend has each once.
void append_panels(Figure& whole, Figure figure, const std::string& study, bool last) {
  const auto columns = static_cast<std::size_t>(figure.columns);
  const auto width = static_cast<std::size_t>(whole.columns);
  const std::size_t rows = (figure.panels.size() + columns - 1) / columns;
  // A row of a study begins a row of the whole; panels without series fill up the row before.
  const auto fill_up = [&] {
    while (whole.panels.size() % width != 0) whole.panels.push_back({.title = {}, .x = {}, .y = {}, .series = {}});
  };
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    Panel& panel = figure.panels[i];
    if (i == 0) panel.title = fmt::format("{} {}", display_name(study), panel.title);
    for (Series& series : panel.series) series.curve = curve_of(study, series.curve.text());
    const bool same_range = panel.x.low && panel.x.high;  // else every study has a range of its own
    if (rows == 1 && same_range) panel.show_x = panel.show_x && last;
    if (i % columns == 0) fill_up();
    whole.panels.push_back(std::move(panel));
  }
  if (!last) fill_up();
}

/// The most columns that a figure of this name has.
int columns_of(const std::vector<StudyResult>& results, const std::string& name) {
  int columns = 1;
  for (const StudyResult& result : results)
    for (const Figure& figure : result.result.figures)
      if (figure.name == name) columns = std::max(columns, figure.columns);
  return columns;
}

struct StudyNote {
  std::string study, note;
};

/// The sentences of a note: "bands: ..; oracles: ..".
std::vector<std::string_view> parts_of(std::string_view note) {
  std::vector<std::string_view> parts;
  for (const std::string_view part : split(note, ';'))
    if (!trimmed(part).empty()) parts.push_back(trimmed(part));
  return parts;
}

/// One note of several studies: first what all of their notes say, then the rest with each study's name.
std::string note_of(const std::vector<StudyNote>& notes) {
  const auto all_say = [&](std::string_view part) {
    return std::ranges::all_of(notes,
                               [&](const StudyNote& one) { return std::ranges::count(parts_of(one.note), part) > 0; });
  };
  std::vector<std::string> parts;
  for (const std::string_view part : parts_of(notes.front().note))
    if (all_say(part)) parts.emplace_back(part);
  for (const StudyNote& one : notes) {
    std::vector<std::string_view> own = parts_of(one.note);
    std::erase_if(own, all_say);
    if (!own.empty()) parts.push_back(fmt::format("{}: {}", display_name(one.study), join(own, ", ")));
  }
  return join(parts, "; ");
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
  std::map<std::string, std::vector<StudyNote>> notes;  // by figure
  for (StudyResult& one : results) {
    const bool last = &one == &results.back();
    for (Figure& figure : one.result.figures) {
      auto known = std::ranges::find(whole.figures, figure.name, &Figure::name);
      if (known == whole.figures.end()) {
        Figure empty = figure;
        empty.panels.clear();
        empty.columns = columns_of(results, figure.name);
        empty.data = with_study_column(figure.data);
        known = whole.figures.insert(whole.figures.end(), std::move(empty));
      } else {
        known->caption += " " + figure.caption;
      }
      notes[figure.name].push_back({one.study, figure.note});
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
  for (Figure& figure : whole.figures) figure.note = note_of(notes.at(figure.name));
  return whole;
}

}  // namespace attest
