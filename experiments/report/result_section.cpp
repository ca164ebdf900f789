// Turns figures, tables and findings into what a page shows.
#include "experiments/report/result_section.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/report/map_link.h"

namespace attest {
namespace {

std::string svg_of(const Figure& figure, ReportDrawing& drawing) {
  if (drawing.no_gnuplot) return {};
  try {
    write_figure_source(figure, {}, drawing.folder);
  } catch (const std::system_error& error) {
    throw OutputError(
        fmt::format("cannot write to the folder {}: {}", drawing.folder.parent_path().string(), error.what()));
  }
  const GnuplotRun run = draw_figure(figure, drawing.folder, {"svg"});
  if (run.status == GnuplotRun::Status::not_installed) {
    drawing.no_gnuplot = true;
    drawing.note("gnuplot is not installed, so that there are no pictures here; the tables hold their data.");
    return {};
  }
  if (run.status == GnuplotRun::Status::not_written)
    throw OutputError(
        fmt::format("cannot write to the folder {}: {}", drawing.folder.parent_path().string(), run.message));
  if (run.status != GnuplotRun::Status::done) {
    drawing.note(run.message);
    return {};
  }
  std::ifstream in(drawing.folder / (figure.name + ".svg"), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The table with its texts as they may be shown: they may come from files.
Table printable_table(const Table& table) {
  std::vector<Column> columns;
  for (const Column& column : table.columns()) {
    Column& head = columns.emplace_back(column);
    head.texts.clear();
    head.numbers.clear();
  }
  Table shown(std::move(columns));
  for (std::size_t row = 0; row < table.rows(); ++row) {
    std::vector<Table::Cell> cells;
    for (const Column& column : table.columns())
      cells.push_back(column.kind == kText ? Table::Cell(printable(column.texts[row]))
                                           : Table::Cell(column.numbers[row]));
    shown.add_row(std::move(cells));
  }
  return shown;
}

/// Longer tables would be most of the page; `attest figures` writes them.
constexpr std::size_t kMaxRows = 500;

void add_table(const Table& table, const std::string& title, bool open, PageSection& section) {
  if (table.rows() <= kMaxRows) {
    section.tables.push_back({.title = title, .table = printable_table(table), .open = open});
    return;
  }
  section.note +=
      fmt::format("{}{}: {} rows, in the csv of attest figures.", section.note.empty() ? "" : " ", title, table.rows());
}

PageFinding finding_of(const Finding& finding, const std::string& section, const std::string& model) {
  std::string link = section;
  if (const std::optional<MapPlace>& place = finding.place)
    link = map_link({.model = model,
                     .metric = place->metric,
                     .selector = place->selector,
                     .setting = place->setting,
                     .statistic = place->statistic,
                     .layer = place->layer,
                     .head = place->head});
  return {.severity = finding.severity,
          .text = printable(finding.text),
          .number = printable(finding.number),
          .link = std::move(link)};
}

}  // namespace

void ReportDrawing::note(const std::string& sentence) {
  if (std::ranges::count(notes, sentence) == 0) notes.push_back(sentence);
}

PageSection result_section(const ExperimentMade& made, std::string id, bool several, ReportDrawing& drawing) {
  PageSection section{.id = std::move(id), .title = printable(made.paper)};
  for (const Finding& finding : made.result.findings) {
    const std::string& study = finding.study.empty() ? made.study : finding.study;
    section.findings.push_back(finding_of(finding, section.id, several ? printable(study) : std::string()));
  }
  for (const Figure& figure : made.result.figures) {
    section.figures.push_back(
        {.title = printable(figure.name), .caption = printable(figure.caption), .svg = svg_of(figure, drawing)});
    add_table(figure.data, "Data of " + printable(figure.name), drawing.no_gnuplot, section);
  }
  for (const NamedTable& table : made.result.tables) {
    const std::string title = table.caption.substr(0, table.caption.find(';'));  // the rest names the results
    add_table(table.data, printable(title), true, section);
  }
  return section;
}

}  // namespace attest
