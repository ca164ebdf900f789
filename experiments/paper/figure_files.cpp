// Names and writes the files of figures and tables.
#include "experiments/paper/figure_files.h"

#include <fmt/format.h>

#include <sstream>

#include "dumps/base/printable.h"
#include "plots/text_file.h"

namespace attest {

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

void write_table(const NamedTable& table, const std::filesystem::path& folder) {
  std::ostringstream csv, markdown, latex;
  write_csv(table.data, csv);
  write_markdown(table.data, markdown);
  write_latex(table.data, latex);
  write_text_file(folder / (table.name + ".csv"), csv.str());
  write_text_file(folder / (table.name + ".md"), fmt::format("{}\n{}\n", markdown.str(), printable(table.caption)));
  write_text_file(folder / (table.name + ".tex"), latex.str());
}

void write_captions(const std::vector<ExperimentMade>& made, const std::filesystem::path& folder) {
  std::string text = "# Figures and tables\n";
  for (const ExperimentMade& m : made) {
    text += fmt::format("\n## {}: {}\n\n", m.experiment, m.paper);
    for (const Figure& figure : m.result.figures)
      text += fmt::format("**{}**: {} {}\n\n", figure.name, printable(figure.caption), printable(figure.note));
    for (const NamedTable& table : m.result.tables)
      text += fmt::format("**{}** (table): {}\n\n", table.name, printable(table.caption));
    for (const Finding& finding : m.result.findings) text += fmt::format("- {}\n", printable(finding.text));
  }
  write_text_file(folder / kCaptionsFile, text);
}

}  // namespace attest
