// Turns the results of experiments into sections: the one place of a report that knows what an experiment gives.
#include "experiments/report/experiment_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"

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
    write_figure_source(figure, drawing.folder);
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

ReportSection section_of(const ExperimentResult& result, const std::string& paper, std::string id, Drawing& drawing) {
  ReportSection section{.id = std::move(id), .title = printable(paper), .note = {}};
  for (const std::string& finding : result.findings)
    section.findings.push_back({.severity = Severity::note, .text = printable(finding)});
  section.figures.push_back(
      {.title = printable(paper), .caption = printable(result.figure.caption), .svg = svg_of(result.figure, drawing)});
  section.tables.push_back(
      {.title = "Data of this figure", .table = printable_table(result.figure.data), .open = drawing.no_gnuplot});
  return section;
}

}  // namespace

void add_experiment_sections(const std::vector<ModelStudy>& studies, const std::vector<std::string>& only,
                             const std::filesystem::path& folder, ReportData& data) {
  Drawing drawing{.folder = folder};
  for (const Experiment& experiment : experiments()) {
    if (!only.empty() && std::ranges::count(only, experiment.name) == 0) continue;
    for (std::size_t m = 0; m < studies.size(); ++m) {
      const std::string model = printable(studies[m].model());
      auto outcome = experiment.make(studies[m]);
      if (const auto* unsupported = std::get_if<Unsupported>(&outcome)) {
        note(drawing, fmt::format("Left out: {} ({}): {}.", experiment.name, model, printable(unsupported->reason)));
        continue;
      }
      const std::string id = studies.size() > 1 ? fmt::format("{}-{}", experiment.name, m + 1) : experiment.name;
      const std::string title = studies.size() > 1 ? fmt::format("{}: {}", experiment.paper, model) : experiment.paper;
      ReportSection section = section_of(std::get<ExperimentResult>(outcome), title, id, drawing);
      for (ReportFinding finding : section.findings) {
        finding.link = id;
        data.findings.push_back(std::move(finding));
      }
      data.figures.push_back(std::move(section));
    }
  }
  for (const std::string& sentence : drawing.notes)
    data.figures_note += (data.figures_note.empty() ? "" : " ") + sentence;
}

}  // namespace attest
