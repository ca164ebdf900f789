// Writes the source files of a figure and draws its pictures.
#include "plots/figure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <system_error>

#include "plots/figure_script.h"
#include "plots/picture_check.h"
#include "plots/text_file.h"

namespace attest {

void write_figure_source(const Figure& figure, const PageStyle& page, const std::filesystem::path& folder) {
  std::ostringstream csv;
  write_csv(figure.data, csv);
  write_text_file(folder / (figure.name + ".csv"), csv.str());
  write_text_file(folder / (figure.name + ".gp"), gnuplot_script(figure, page));
}

GnuplotRun draw_figure(const Figure& figure, const std::filesystem::path& folder,
                       const std::vector<std::string>& formats, std::chrono::milliseconds time_limit) {
  const std::string command = fmt::format("formats = {}", gnuplot_quoted(fmt::format("{}", fmt::join(formats, " "))));
  GnuplotRun run = run_gnuplot(folder, figure.name + ".gp", command, time_limit);
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
