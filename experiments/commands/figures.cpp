// attest figures: figures of the paper from results files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/results/results_file.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/cli/checks.h"
#include "experiments/commands/commands.h"
#include "experiments/paper/figure_run.h"

namespace attest {
namespace {

struct FiguresOptions {
  std::vector<std::string> results;
  std::string folder;
  FigureRequest request;
};

nlohmann::json json_of(const FigureReport& report, const std::string& folder) {
  nlohmann::json document = {
      {"folder", folder}, {"figures", nlohmann::json::array()}, {"skipped", nlohmann::json::array()}};
  for (const FigureMade& f : report.made)
    document["figures"].push_back({{"experiment", f.experiment},
                                   {"paper", f.paper},
                                   {"model", f.model},
                                   {"name", f.name},
                                   {"files", f.files},
                                   {"findings", f.findings}});
  for (const FigureSkipped& s : report.skipped)
    document["skipped"].push_back({{"experiment", s.experiment}, {"model", s.model}, {"reason", s.reason}});
  document["not_drawn"] = report.not_drawn;
  return document;
}

std::string text_of(const FigureReport& report, const std::string& folder) {
  std::string text;
  for (const FigureMade& f : report.made) {
    std::vector<std::string> extensions;
    for (const std::string& file : f.files) extensions.push_back(file.substr(f.name.size() + 1));
    text += fmt::format("{}/{}.{{{}}}\n  {} ({})\n", folder, f.name, fmt::join(extensions, ","), f.paper,
                        printable(f.model));
    for (const std::string& finding : f.findings) text += fmt::format("  {}\n", printable(finding));
  }
  for (const FigureSkipped& s : report.skipped)
    text += fmt::format("left out: {} ({}): {}\n", s.experiment, printable(s.model), printable(s.reason));
  return text;
}

/// Names in results may be any bytes; JSON must be UTF-8.
std::string json_text(const nlohmann::json& document) {
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void run_figures(const FiguresOptions& options, const GlobalOptions& global) {
  std::vector<ResultsFile> files;
  for (const std::string& path : options.results) files.emplace_back(path);
  std::vector<const ResultsFile*> pointers;
  for (const ResultsFile& file : files) pointers.push_back(&file);

  const FigureReport report = make_figures(pointers, options.folder, options.request);
  std::cout << (global.json ? json_text(json_of(report, options.folder)) : text_of(report, options.folder));
  if (!report.not_drawn.empty() && !global.quiet)
    std::cerr << fmt::format(
        "{}: data and scripts are written, pictures are not; install gnuplot and run gnuplot NAME.gp in {}\n",
        report.not_drawn, options.folder);
  if (!report.errors.empty()) throw OutputError(fmt::format("{}", fmt::join(report.errors, "; ")));
}

}  // namespace

void add_figures(CLI::App& app, const GlobalOptions& global) {
  auto options = std::make_shared<FiguresOptions>();
  CLI::App* command =
      app.add_subcommand("figures", "The paper's figures that results files can support: pictures, data, scripts");
  command->add_option("RESULTS", options->results, "Results files of `attest run`; those of one model are pooled")
      ->required();
  command->add_option("-o,--output", options->folder, "Folder for the figures, made if it is not there")
      ->required()
      ->transform(text_that_is("a folder's name"))
      ->type_name("DIR");
  std::vector<std::string> names;
  for (const Experiment& experiment : experiments()) names.push_back(experiment.name);
  command->add_option("--only", options->request.only, "These experiments, separated by commas")
      ->delimiter(',')
      ->transform(one_of(names))
      ->type_name("NAMES");
  command->add_option("--format", options->request.formats, "Pictures to draw")
      ->delimiter(',')
      ->transform(one_of(kFigureFormats))
      ->capture_default_str()
      ->type_name("NAMES");
  command->add_flag("--force", options->request.replace, "Replace figures that are there");
  command->callback([options, &global] { run_figures(*options, global); });
}

}  // namespace attest
