// Turns the results of experiments into sections: the one place of a report that knows what an experiment gives.
#include "experiments/report/experiment_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/paper/figure_run.h"
#include "experiments/report/map_link.h"

namespace attest {
namespace {

/// What was drawn so far, and why something was not.
struct Drawing {
  std::filesystem::path folder;
  std::vector<std::string> notes = {};
  bool no_gnuplot = false;
};

void note(Drawing& drawing, const std::string& sentence) {
  if (std::ranges::count(drawing.notes, sentence) == 0) drawing.notes.push_back(sentence);
}

std::string svg_of(const Figure& figure, Drawing& drawing) {
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
    note(drawing, "gnuplot is not installed, so that there are no pictures here; the tables hold their data.");
    return {};
  }
  if (run.status == GnuplotRun::Status::not_written)
    throw OutputError(
        fmt::format("cannot write to the folder {}: {}", drawing.folder.parent_path().string(), run.message));
  if (run.status != GnuplotRun::Status::done) {
    note(drawing, run.message);
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
      cells.push_back(column.kind == Column::Kind::text ? Table::Cell(printable(column.texts[row]))
                                                        : Table::Cell(column.numbers[row]));
    shown.add_row(std::move(cells));
  }
  return shown;
}

/// Longer tables would be most of the page. `attest figures` writes them.
constexpr std::size_t kMostRows = 500;

void add_table(const Table& table, const std::string& title, bool open, ReportSection& section) {
  if (table.rows() <= kMostRows) {
    section.tables.push_back({.title = title, .table = printable_table(table), .open = open});
    return;
  }
  section.note +=
      fmt::format("{}{}: {} rows, in the csv of attest figures.", section.note.empty() ? "" : " ", title, table.rows());
}

ReportFinding finding_of(const Finding& finding, const std::string& section, const std::string& model) {
  std::string link = section;
  if (const std::optional<MapPlace>& place = finding.place)
    link = map_link({.model = model,
                     .metric = place->metric,
                     .selector = place->selector,
                     .setting = place->setting,
                     .layer = place->layer,
                     .head = place->head});
  return {.severity = finding.severity,
          .text = printable(finding.text),
          .number = printable(finding.number),
          .link = std::move(link)};
}

/// `several`: the report has several models, and links say which.
ReportSection section_of(const ExperimentMade& made, std::string id, bool several, Drawing& drawing) {
  ReportSection section{.id = std::move(id), .title = printable(made.paper)};
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

}  // namespace

void add_experiment_sections(ResultsFiles files, const std::vector<std::string>& only, const ExperimentOptions& options,
                             const std::filesystem::path& folder, ReportData& data) {
  Drawing drawing{.folder = folder};
  FigureRequest request;
  request.only = only;
  request.options = options;
  const FigureReport report = make_experiments(files, request);
  std::map<std::string, int> sections;
  for (const ExperimentMade& made : report.made) {
    const int number = ++sections[made.experiment];
    const std::string id = number == 1 ? made.experiment : fmt::format("{}-{}", made.experiment, number);
    ReportSection section = section_of(made, id, data.models.size() > 1, drawing);
    // What quality_vs_io says of selectors at the papers' settings are findings of the study already.
    if (made.experiment != "quality_vs_io")
      std::ranges::copy_if(section.findings, std::back_inserter(data.findings),
                           [](const ReportFinding& finding) { return finding.severity >= Severity::warning; });
    data.figures.push_back(std::move(section));
  }
  for (const ExperimentSkipped& s : report.skipped)
    note(drawing, fmt::format("Left out: {} ({}): {}{}.", s.experiment, printable(s.study), printable(s.reason),
                              s.run_options.empty() ? "" : fmt::format("; attest run ... {}", s.run_options)));
  for (const std::string& sentence : drawing.notes)
    data.figures_note += (data.figures_note.empty() ? "" : " ") + sentence;
}

}  // namespace attest
