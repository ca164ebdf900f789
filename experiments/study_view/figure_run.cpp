// Makes figures and tables in a staged folder and draws them.
#include "experiments/study_view/figure_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <system_error>

#include "dumps/base/cleanup.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/machine_limits.h"
#include "dumps/base/printable.h"
#include "experiments/study_view/facets.h"
#include "experiments/study_view/figure_files.h"
#include "experiments/study_view/staged_folder.h"
#include "experiments/study_view/words.h"
#include "plots/files.h"

namespace attest {
namespace {

/// Gives the figures and tables of a study file names that no other study has.
void name_files(ExperimentResult& result, const std::string& title, std::vector<std::string>& taken) {
  auto rename = [&](std::string& name) {
    const std::string wanted = name + "-" + slug(title);
    name = wanted;
    for (int i = 2; std::ranges::count(taken, name) > 0; ++i) name = fmt::format("{}-{}", wanted, i);
    taken.push_back(name);
  };
  for (Figure& figure : result.figures) rename(figure.name);
  for (NamedTable& table : result.tables) rename(table.name);
}

void draw(const ExperimentMade& made, const StagedFolder& staged, const FigureRequest& request, FigureReport& report) {
  for (const NamedTable& table : made.result.tables) write_table(table, staged.staging());
  for (const Figure& figure : made.result.figures) {
    write_figure_source(figure, request.page, staged.staging());
    if (!report.not_drawn.empty()) continue;
    const GnuplotRun run = draw_figure(figure, staged.staging(), request.formats);
    if (run.status == GnuplotRun::Status::not_installed) report.not_drawn = run.message;
    if (run.status == GnuplotRun::Status::failed) report.failed.push_back(run.message);
    if (run.status == GnuplotRun::Status::not_written) staged.fail(run.message);
  }
}

}  // namespace

std::string ExperimentSkipped::text() const {
  return fmt::format("{}{}: {}{}", experiment, study.empty() ? "" : fmt::format(" ({})", printable(study)),
                     printable(reason), run_options.empty() ? "" : fmt::format("; {} {}", command, run_options));
}

void add_outcomes(const std::string& experiment, const std::string& paper, std::vector<StudyOutcome> outcomes,
                  const std::string& command, FigureReport& report) {
  const bool several = outcomes.size() > 1;
  std::vector<StudyResult> results;
  for (StudyOutcome& one : outcomes) {
    if (const auto* unsupported = std::get_if<Unsupported>(&one.outcome))
      report.skipped.push_back({.experiment = experiment,
                                .study = one.study,
                                .reason = unsupported->reason,
                                .run_options = unsupported->run_options,
                                .command = command});
    else
      results.push_back({one.study, std::get<ExperimentResult>(std::move(one.outcome))});
  }
  if (results.empty()) return;
  if (!several) {
    report.made.push_back({experiment, paper, results[0].study, std::move(results[0].result)});
  } else if (can_be_facets(results)) {
    std::vector<std::string> titles;
    for (const StudyResult& result : results) titles.push_back(result.study);
    report.made.push_back({experiment, paper, join(titles, "; "), facets(std::move(results))});
  } else {
    std::vector<std::string> taken;
    for (StudyResult& result : results) {
      name_files(result.result, result.study, taken);
      report.made.push_back({experiment, paper, result.study, std::move(result.result)});
    }
  }
}

void refuse_nothing(const FigureReport& report) {
  if (!report.made.empty()) return;
  std::string reasons;
  for (const ExperimentSkipped& s : report.skipped)
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : "; ", s.experiment, s.reason);
  throw InputError(fmt::format("the results support no figure: {}", reasons.empty() ? "they hold no sample" : reasons));
}

void refuse_existing(const FigureReport& report, const std::filesystem::path& folder, const FigureRequest& request,
                     const std::vector<TextFile>& texts) {
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored) && !std::filesystem::is_directory(folder, ignored))
    throw OutputError(fmt::format("{} is not a folder", folder.string()));
  if (request.replace) return;
  std::vector<std::string> names;
  for (const TextFile& text : texts) names.push_back(text.name);
  for (const ExperimentMade& m : report.made)
    for (std::string& file : files_of(m.result, request.formats)) names.push_back(std::move(file));
  names.emplace_back(kCaptionsFile);
  for (const std::string& name : names)
    if (std::filesystem::exists(folder / name, ignored))
      throw OutputError(fmt::format("{} is there already: --force replaces it", (folder / name).string()));
}

void write_figures(FigureReport& report, const std::filesystem::path& folder, const FigureRequest& request,
                   const std::vector<TextFile>& texts) {
  StagedFolder staged(folder);
  const Cleanup gnuplot(end_gnuplot);
  try {
    for (const TextFile& text : texts) write_text_file(staged.staging() / text.name, text.text);
    for (const ExperimentMade& made : report.made) draw(made, staged, request, report);
    const std::string before = captions_of(folder);
    write_captions(report.made, staged.staging(), before);
    const std::vector<std::string> written = staged.commit();
    std::error_code ignored;
    for (ExperimentMade& made : report.made) {
      for (const std::string& file : files_of(made.result, kFigureFormats))
        if (std::ranges::count(written, file) > 0) made.files.push_back(file);
      if (!request.replace) continue;
      // Captions may have been edited: other names are somebody else's.
      for (const std::string& file : files_of_captions(before, made.experiment))
        if (file.starts_with(made.experiment) && file.find('/') == std::string::npos &&
            std::ranges::count(written, file) == 0)
          std::filesystem::remove(folder / file, ignored);
    }
  } catch (const std::system_error& error) {
    throw_if_limit(folder.string(), error.code().value());
    staged.fail(error.what());
  }
}

void refuse_failed(const FigureReport& report, const std::string& folder) {
  constexpr std::size_t kMax = 3;
  if (!report.failed.empty())
    throw OutputError(fmt::format("{}; all else is written to {}", first_few(report.failed, kMax, "; "), folder));
}

std::string not_drawn_text(const FigureReport& report, const std::string& folder) {
  if (report.not_drawn.empty()) return {};
  return fmt::format(
      "{}: data and scripts are written, pictures are not; install gnuplot and run gnuplot NAME.gp in {}\n",
      report.not_drawn, folder);
}

}  // namespace attest
