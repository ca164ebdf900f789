// Writes the source files of a figure and draws its pictures.
#include "plots/figure.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <system_error>

#include "plots/code.h"
#include "plots/files.h"

namespace attest {

CurveName::CurveName(std::string name) : text_(on_one_line(std::move(name))) {
  std::ranges::replace(text_, ',', ';');
  std::ranges::replace(text_, '"', '\'');
}

std::string panel_title(std::size_t index, const std::string& text) {
  return fmt::format("({}){}{}", static_cast<char>('a' + index % 26), text.empty() ? "" : " ", text);
}

std::string format_words(const std::vector<std::string>& formats) {
  std::string words;
  for (const std::string& format : formats) words += (words.empty() ? "" : " ") + format;
  return words;
}

void write_figure_source(const Figure& figure, const PageStyle& page, const std::filesystem::path& folder) {
  std::ostringstream csv;
  write_csv(figure.data, csv, [](const std::string& column, const std::string& text) {
    if (column == kCurveColumn) return CurveName(text).text();
    // gnuplot ends a row at a line break, quoted or not, and does not read a doubled double quote as one.
    std::string cell = on_one_line(text);
    std::ranges::replace(cell, '"', '\'');
    return cell;
  });
  write_text_file(folder / (figure.name + ".csv"), csv.str());
  write_text_file(folder / (figure.name + ".gp"), gnuplot_script(figure, page).text());
}

GnuplotRun draw_figure(const Figure& figure, const std::filesystem::path& folder,
                       const std::vector<std::string>& formats, std::chrono::milliseconds time_limit) {
  const Gnuplot command = gnuplot("formats = {}", gnuplot_text(format_words(formats)));
  GnuplotRun run = run_gnuplot(folder, figure.name + ".gp", command, time_limit * formats.size());
  for (const std::string& format : formats) {
    const std::string picture = figure.name + "." + format;
    if (run.status == GnuplotRun::Status::done && !is_whole_picture(folder / picture, format))
      run = {GnuplotRun::Status::not_written, fmt::format("{} is missing or truncated; is the disk full?", picture)};
  }
  if (run.status == GnuplotRun::Status::done) return run;
  for (const std::string& format : formats) {
    std::error_code ignored;
    std::filesystem::remove(folder / (figure.name + "." + format), ignored);
  }
  return run;
}

}  // namespace attest
