// Makes figures in a staged folder and draws them.
#include "experiments/paper/figure_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

#include "dumps/base/cleanup.h"
#include "dumps/base/error.h"
#include "dumps/base/machine_limits.h"
#include "experiments/paper/staged_folder.h"

namespace attest {
namespace {

/// A model's name for use in file names: characters that a shell or LaTeX would interpret become '-'.
std::string slug(const std::string& model) {
  std::string text;
  for (char c : model) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    text += plain ? c : '-';
  }
  return text.substr(0, 80);
}

/// A figure that is computed but not yet on disk.
struct Planned {
  FigureMade made;
  Figure figure;
};

std::vector<Planned> plan(const std::vector<ModelStudy>& studies, const FigureRequest& request, FigureReport& report) {
  std::vector<Planned> planned;
  for (const Experiment& experiment : experiments()) {
    if (!request.only.empty() && std::ranges::count(request.only, experiment.name) == 0) continue;
    for (std::size_t m = 0; m < studies.size(); ++m) {
      auto outcome = experiment.make(studies[m]);
      if (const auto* unsupported = std::get_if<Unsupported>(&outcome)) {
        report.skipped.push_back({experiment.name, studies[m].model(), unsupported->reason});
        continue;
      }
      ExperimentResult& exhibit = std::get<ExperimentResult>(outcome);
      std::string name = exhibit.figure.name;
      if (studies.size() > 1) name += "-" + slug(studies[m].model());
      const bool taken = std::ranges::any_of(planned, [&](const Planned& p) { return p.made.name == name; });
      if (taken) name += fmt::format("-{}", m + 1);
      exhibit.figure.name = name;
      FigureMade made{.experiment = experiment.name,
                      .paper = experiment.paper,
                      .model = studies[m].model(),
                      .name = name,
                      .files = {},
                      .findings = std::move(exhibit.findings)};
      planned.push_back({std::move(made), std::move(exhibit.figure)});
    }
  }
  return planned;
}

void refuse_existing(const std::vector<Planned>& planned, const std::filesystem::path& folder,
                     const FigureRequest& request) {
  for (const Planned& p : planned) {
    std::vector<std::string> extensions = {"csv", "gp"};
    extensions.insert(extensions.end(), request.formats.begin(), request.formats.end());
    for (const std::string& extension : extensions) {
      const std::filesystem::path path = folder / (p.made.name + "." + extension);
      std::error_code ignored;
      if (std::filesystem::exists(path, ignored))
        throw OutputError(fmt::format("{} is there already: --force replaces it", path.string()));
    }
  }
}

void draw(const Planned& planned, const StagedFolder& staged, const FigureRequest& request, FigureReport& report) {
  write_figure_source(planned.figure, staged.staging());
  if (!report.not_drawn.empty()) return;
  const GnuplotRun run = draw_figure(planned.figure, staged.staging(), request.formats);
  if (run.status == GnuplotRun::Status::not_installed) report.not_drawn = run.message;
  if (run.status == GnuplotRun::Status::failed) report.errors.push_back(run.message);
  if (run.status == GnuplotRun::Status::not_written) staged.fail(run.message);
}

}  // namespace

FigureReport make_figures(ResultsFiles files, const std::filesystem::path& folder, const FigureRequest& request) {
  FigureReport report;
  std::vector<Planned> planned = plan(split_by_model(files), request, report);
  if (planned.empty()) {
    std::string reasons;
    for (const FigureSkipped& s : report.skipped)
      reasons += fmt::format("{}{} {}", reasons.empty() ? "" : "; ", s.experiment, s.reason);
    throw InputError(fmt::format("the results support no figure: {}", reasons.empty() ? "they hold no dump" : reasons));
  }
  if (!request.replace) refuse_existing(planned, folder, request);

  StagedFolder staged(folder);
  const Cleanup gnuplot(end_gnuplot);
  try {
    for (const Planned& p : planned) draw(p, staged, request, report);
    const std::vector<std::string> names = staged.commit();
    for (Planned& p : planned) {
      for (const std::string& name : names)
        if (name.substr(0, name.rfind('.')) == p.made.name) p.made.files.push_back(name);
      report.made.push_back(std::move(p.made));
    }
  } catch (const std::system_error& error) {
    throw_if_limit(folder.string(), error.code().value());
    staged.fail(error.what());
  }
  return report;
}

}  // namespace attest
