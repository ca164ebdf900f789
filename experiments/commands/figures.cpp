// attest figures: figures of the paper from results files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/cli/checks.h"
#include "experiments/cli/figure_inputs.h"
#include "experiments/cli/results_arguments.h"
#include "experiments/commands/commands.h"
#include "experiments/kernel_figures/kernel_experiments.h"
#include "experiments/outcomes/failure_prediction.h"
#include "experiments/paper/figure_run.h"

namespace attest {
namespace {

struct FiguresOptions {
  ResultsArguments results;
  std::string folder;
  FigureRequest request;
  std::string style = "paper";
  std::optional<double> width;  ///< inches
  std::string by = "model";
};

nlohmann::json json_of(const Finding& finding) {
  constexpr std::array kNames = {"good", "note", "warning", "serious"};
  nlohmann::json document = {{"text", finding.text},
                             {"severity", kNames.at(static_cast<std::size_t>(finding.severity))},
                             {"number", finding.number}};
  if (finding.place)
    document["place"] = {
        {"metric", finding.place->metric}, {"selector", finding.place->selector}, {"setting", finding.place->setting}};
  return document;
}

nlohmann::json json_of(const FigureReport& report, const std::string& folder) {
  nlohmann::json document = {
      {"folder", folder}, {"experiments", nlohmann::json::array()}, {"skipped", nlohmann::json::array()}};
  for (const ExperimentMade& made : report.made) {
    nlohmann::json one = {{"experiment", made.experiment},
                          {"paper", made.paper},
                          {"study", made.study},
                          {"figures", nlohmann::json::array()},
                          {"tables", nlohmann::json::array()},
                          {"files", made.files},
                          {"findings", nlohmann::json::array()}};
    for (const Figure& figure : made.result.figures)
      one["figures"].push_back({{"name", figure.name}, {"caption", figure.caption}});
    for (const NamedTable& table : made.result.tables)
      one["tables"].push_back({{"name", table.name}, {"caption", table.caption}});
    for (const Finding& finding : made.result.findings) one["findings"].push_back(json_of(finding));
    document["experiments"].push_back(std::move(one));
  }
  for (const ExperimentSkipped& s : report.skipped)
    document["skipped"].push_back({{"experiment", s.experiment},
                                   {"study", s.study},
                                   {"reason", s.reason},
                                   {"run_options", s.run_options},
                                   {"command", s.command}});
  document["not_drawn"] = report.not_drawn;
  return document;
}

/// "quality_vs_io.{csv,gp,pdf}" for each figure and table.
std::string files_text(const ExperimentMade& made, const std::string& folder) {
  std::map<std::string, std::vector<std::string>> extensions;
  for (const std::string& file : made.files)
    extensions[file.substr(0, file.rfind('.'))].push_back(file.substr(file.rfind('.') + 1));
  std::string text;
  for (const auto& [name, list] : extensions) text += fmt::format("{}/{}.{{{}}}\n", folder, name, fmt::join(list, ","));
  return text;
}

std::string text_of(const FigureReport& report, const std::string& folder) {
  std::string text;
  for (const ExperimentMade& made : report.made) {
    text += files_text(made, folder) + fmt::format("  {} ({})\n", made.paper, printable(made.study));
    for (const Finding& finding : made.result.findings) text += fmt::format("  {}\n", printable(finding.text));
  }
  for (const ExperimentSkipped& s : report.skipped) text += fmt::format("left out: {}\n", s.text());
  return text;
}

/// Names in results may be any bytes; JSON must be UTF-8.
std::string json_text(const nlohmann::json& document) {
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void run_figures(FiguresOptions& options, const GlobalOptions& global) {
  FigureRequest request = options.request;
  request.page = page_style(options.style);
  request.page.width_in = options.width.value_or(request.page.width_in);
  request.by = static_cast<PoolBy>(std::ranges::find(kPoolNames, options.by) - kPoolNames.begin());
  refuse_existing({}, options.folder, request);  // before the work
  const FigureInputs inputs = split_inputs(options.results.paths());
  const std::vector<KernelStudy> benches = read_kernel_studies(inputs.benches);
  const std::vector<TasksFile> tasks = read_tasks_files(inputs.tasks);
  const ResultsFiles results = options.results.open(inputs.results);
  FigureReport report = make_experiments(results, request);
  add_failure_prediction(results, tasks, request, report);
  add_kernel_experiments(benches, request, report);
  refuse_nothing(report);
  refuse_existing(report, options.folder, request);
  write_figures(report, options.folder, request);
  std::cout << (global.json ? json_text(json_of(report, options.folder)) : text_of(report, options.folder));
  if (!global.quiet) std::cerr << not_drawn_text(report, options.folder);
  if (!report.errors.empty()) throw OutputError(fmt::format("{}", fmt::join(report.errors, "; ")));
}

}  // namespace

void add_figures(CLI::App& app, const GlobalOptions& global) {
  auto options = std::make_shared<FiguresOptions>();
  CLI::App* command =
      app.add_subcommand("figures", "The paper's figures that results files can support: pictures, data, scripts");
  options->results.add_to(*command, kOthersToo);
  command->add_option("-o,--output", options->folder, "Folder for the figures, made if it is not there")
      ->required()
      ->transform(text_that_is("a folder's name"))
      ->type_name("DIR");
  std::vector<std::string> names;
  for (const Experiment& experiment : experiments()) names.push_back(experiment.name);
  names.emplace_back(kFailurePrediction);
  for (const KernelExperiment& experiment : kernel_experiments()) names.push_back(experiment.name);
  command->add_option("--only", options->request.only, "These experiments, separated by commas")
      ->delimiter(',')
      ->transform(one_of(names))
      ->type_name("NAMES");
  command->add_option("--format", options->request.formats, "Pictures to draw")
      ->delimiter(',')
      ->transform(one_of(kFigureFormats))
      ->capture_default_str()
      ->type_name("NAMES");
  command->add_option("--style", options->style, "paper: 3.3 in, 7 pt. slides: 8 in, 14 pt, thicker lines")
      ->transform(one_of(kPageStyles))
      ->capture_default_str()
      ->type_name("NAME");
  command->add_option("--width", options->width, "Width of the figures: 3.25in, 84mm (default: that of the style)")
      ->transform(length_in_inches())
      ->type_name("LENGTH");
  command->add_option("--by", options->by, "What is pooled into one row of panels: a model, its tasks or its lengths")
      ->transform(one_of(kPoolNames))
      ->capture_default_str()
      ->type_name("NAME");
  command->add_flag("--linear", options->request.options.linear_axes,
                    "Linear axes for quality and errors instead of logarithmic ones");
  command->add_flag("--force", options->request.replace, "Replace figures that are there");
  command->callback([options, &global] { run_figures(*options, global); });
}

}  // namespace attest
