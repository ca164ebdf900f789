// Writes everything about a verdict into one folder.
#include "experiments/validation/verdict_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "experiments/study_view/figure_files.h"
#include "experiments/study_view/figure_run.h"
#include "experiments/validation/verdict_files.h"
#include "experiments/validation/verdict_result.h"
#include "experiments/validation/verdict_text.h"
#include "plots/code.h"

namespace attest {
namespace {

constexpr const char* kVerdictJson = "verdict.json";

/// The verdict as it was printed, indented so that Markdown leaves it as it is, and the table of settings.
std::string verdict_markdown(const Judgement& judgement, const ExperimentMade& made) {
  std::string text = fmt::format("# Validation of {}\n\n", markdown_text(printable(made.paper)));
  std::istringstream lines(verdict_text(judgement));
  for (std::string line; std::getline(lines, line);) text += "    " + line + "\n";
  for (const NamedTable& table : made.result.tables) text += "\n" + table_markdown(table);
  return text;
}

FigureRequest figure_request(const VerdictFolder& folder) {
  FigureRequest request;
  request.formats = folder.formats;
  request.replace = folder.replace;
  return request;
}

/// `attest figures` keeps captions of its own there.
void refuse_figures(const std::filesystem::path& folder) {
  if (has_others(folder, kVerdictExperiment))
    throw OutputError(
        fmt::format("--details: {} has figures of 'attest figures', expected a folder of its own", folder.string()));
}

/// Figures and tables that this verdict does not have, of one that wrote the files `before`: others of such a name are
/// somebody else's. The list of stems stays, because somebody may have edited the captions that name `before`.
void remove_others(const ExperimentMade& made, const std::vector<std::string>& before,
                   const std::filesystem::path& folder) {
  std::error_code ignored;
  std::vector<std::string> suffixes = {"csv", "gp", "md", "tex"};
  suffixes.insert(suffixes.end(), kFigureFormats.begin(), kFigureFormats.end());
  for (const char* stem : {"groups", "settings", "validation", "validation_units"})
    for (const std::string& suffix : suffixes)
      if (const std::string name = fmt::format("{}.{}", stem, suffix);
          std::ranges::count(made.files, name) == 0 && std::ranges::count(before, name) > 0)
        std::filesystem::remove(folder / name, ignored);
}

}  // namespace

bool is_verdict_file(const std::filesystem::path& name) {
  constexpr const char* kBegins[] = {"captions", "groups", "offenders", "settings", "validation", "verdict"};
  return std::ranges::any_of(kBegins, [&](const char* begin) { return name.string().starts_with(begin); });
}

void check_verdict_folder(const VerdictFolder& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder.path, ignored) && !std::filesystem::is_directory(folder.path, ignored))
    throw OutputError(fmt::format("{} is not a folder", folder.path.string()));
  refuse_figures(folder.path);
  refuse_existing({}, folder.path, figure_request(folder), {{.name = kVerdictJson, .text = {}}});
}

FigureReport write_verdict_folder(const Judgement& judgement, const VerdictFolder& folder) {
  FigureReport report;
  report.made.push_back(verdict_result(judgement));
  const std::vector<TextFile> texts = {{kVerdictJson, verdict_json_text(judgement)},
                                       {"verdict.md", verdict_markdown(judgement, report.made.front())},
                                       {"offenders.csv", offenders_csv(judgement)}};
  const FigureRequest request = figure_request(folder);
  refuse_figures(folder.path);
  refuse_existing(report, folder.path, request, texts);
  const std::vector<std::string> before = files_of_captions(captions_of(folder.path), kVerdictExperiment);
  write_figures(report, folder.path, request, texts);
  if (folder.replace) remove_others(report.made.front(), before, folder.path);
  return report;
}

}  // namespace attest
