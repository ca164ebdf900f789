// Names and writes the files of figures and tables.
#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "dumps/base/printable.h"
#include "experiments/study_view/figure_run.h"
#include "plots/code.h"
#include "plots/files.h"

namespace attest {
namespace {

/// A sentence, with names from files, as a paragraph of Markdown.
std::string paragraph(const std::string& text) { return markdown_text(printable(text)).text(); }

constexpr std::string_view kCaptionsTitle = "# Figures and tables\n";
constexpr std::string_view kSection = "\n## ";

}  // namespace

std::vector<std::string> files_of(const ExperimentResult& result, const std::vector<std::string>& formats) {
  std::vector<std::string> files;
  for (const Figure& figure : result.figures) {
    files.insert(files.end(), {figure.name + ".csv", figure.name + ".gp"});
    for (const std::string& format : formats) files.push_back(figure.name + "." + format);
  }
  for (const NamedTable& table : result.tables)
    for (const char* extension : {".csv", ".md", ".tex"}) files.push_back(table.name + extension);
  return files;
}

std::string table_markdown(const NamedTable& table) {
  std::ostringstream rows;
  write_markdown(table.data, rows);
  return fmt::format("{}\n{}\n", rows.str(), paragraph(table.caption));
}

void write_table(const NamedTable& table, const std::filesystem::path& folder) {
  std::ostringstream csv, latex;
  write_csv(table.data, csv);
  write_latex(table.data, latex);
  write_text_file(folder / (table.name + ".csv"), csv.str());
  write_text_file(folder / (table.name + ".md"), table_markdown(table));
  write_text_file(folder / (table.name + ".tex"), latex.str());
}

std::string sections_of_others(std::string_view captions, const std::vector<std::string>& experiments) {
  std::string kept;
  if (!captions.starts_with(kCaptionsTitle)) return kept;
  for (std::size_t at = captions.find(kSection); at != std::string_view::npos;) {
    const std::size_t next = captions.find(kSection, at + 1);
    const std::string_view section = captions.substr(at, next - at);
    const std::string_view name = section.substr(kSection.size(), section.find(':') - kSection.size());
    if (std::ranges::count(experiments, name) == 0) kept += section;
    at = next;
  }
  return kept;
}

void write_captions(const std::vector<ExperimentMade>& made, const std::filesystem::path& folder,
                    const std::string& before) {
  std::string text(kCaptionsTitle);
  std::vector<std::string> experiments;
  for (const ExperimentMade& m : made) {
    experiments.push_back(m.experiment);
    text += fmt::format("\n## {}: {}\n\n", m.experiment, m.paper);
    for (const Figure& figure : m.result.figures)
      text += fmt::format("**{}**: {} {}\n\n", figure.name, paragraph(figure.caption), paragraph(figure.note));
    for (const NamedTable& table : m.result.tables)
      text += fmt::format("**{}** (table): {}\n\n", table.name, paragraph(table.caption));
    for (const Finding& finding : m.result.findings) text += fmt::format("- {}\n", paragraph(finding.text));
  }
  write_text_file(folder / kCaptionsFile, text + sections_of_others(before, experiments));
}

}  // namespace attest
