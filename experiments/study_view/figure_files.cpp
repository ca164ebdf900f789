// Names and writes the files of figures and tables, and reads and writes captions.
#include "experiments/study_view/figure_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "experiments/study_view/words.h"
#include "plots/code.h"
#include "plots/files.h"

namespace attest {
namespace {

/// A sentence, with names from files, as a paragraph of Markdown.
std::string paragraph(const std::string& text) { return markdown_text(printable(text)).text(); }

constexpr std::string_view kCaptionsTitle = "# Figures and tables\n";
constexpr std::string_view kSection = "\n## ";
constexpr std::string_view kFiles = "\nFiles: ";  // their names follow, with spaces between; nothing follows them

/// Calls visit(experiment, section) for each section; of captions that write_captions() did not write, for none.
template <class Visit>
void for_each_section(std::string_view captions, Visit visit) {
  if (!captions.starts_with(kCaptionsTitle)) return;
  for (std::size_t at = captions.find(kSection); at != std::string_view::npos;) {
    const std::size_t next = captions.find(kSection, at + 1);
    const std::string_view section = captions.substr(at, next - at);
    visit(section.substr(kSection.size(), section.find(':') - kSection.size()), section);
    at = next;
  }
}

/// The sections about other experiments than these.
std::string sections_of_others(std::string_view captions, const std::vector<std::string>& experiments) {
  std::string kept;
  for_each_section(captions, [&](std::string_view name, std::string_view section) {
    if (std::ranges::count(experiments, name) == 0) kept += section;
  });
  return kept;
}

/// With the note at its bottom, which is no sentence there.
std::string caption_of(const Figure& figure) {
  if (figure.note.empty()) return figure.caption;
  return fmt::format("{} {}.", figure.caption, capitalized(figure.note));
}

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

std::string captions_of(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kCaptionsFile;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};  // a pipe would be waited for
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool has_others(const std::filesystem::path& folder, const std::string& experiment) {
  return !sections_of_others(captions_of(folder), {experiment}).empty();
}

bool has_section(const std::filesystem::path& folder, const std::string& experiment) {
  const std::string captions = captions_of(folder);
  return sections_of_others(captions, {experiment}) != sections_of_others(captions, {});
}

std::vector<std::string> files_of_captions(std::string_view captions, std::string_view experiment) {
  std::vector<std::string> files;
  for_each_section(captions, [&](std::string_view name, std::string_view section) {
    const std::size_t begin = section.rfind(kFiles);
    if (name != experiment || begin == std::string_view::npos) return;
    std::istringstream words{std::string(section.substr(begin + kFiles.size()))};
    for (std::string word; words >> word;) files.push_back(word);
  });
  return files;
}

void write_captions(const std::vector<ExperimentMade>& made, const std::filesystem::path& folder,
                    const std::string& before) {
  std::string text(kCaptionsTitle);
  std::vector<std::string> experiments;
  for (const ExperimentMade& m : made) {
    experiments.push_back(m.experiment);
    text += fmt::format("\n## {}: {}\n\n", m.experiment, paragraph(m.paper));
    for (const Figure& figure : m.result.figures)
      text += fmt::format("**{}**: {}\n\n", figure.name, paragraph(caption_of(figure)));
    for (const NamedTable& table : m.result.tables)
      text += fmt::format("**{}** (table): {}\n\n", table.name, paragraph(table.caption));
    for (const Finding& finding : m.result.findings) text += fmt::format("- {}\n", paragraph(finding.text));
    std::vector<std::string> files = files_of(m.result, kFigureFormats);
    std::erase_if(files, [&](const std::string& file) { return !std::filesystem::exists(folder / file); });
    text += fmt::format("{}{}\n", kFiles, join(files, " "));
  }
  write_text_file(folder / kCaptionsFile, text + sections_of_others(before, experiments));
}

}  // namespace attest
