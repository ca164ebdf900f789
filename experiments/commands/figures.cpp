// attest figures: figures of the paper from results files.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/json_numbers.h"
#include "dumps/base/printable.h"
#include "experiments/cli/output/progress.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/commands/commands.h"
#include "experiments/list/catalogue.h"
#include "experiments/report/all_experiments.h"
#include "experiments/study_view/figure_files.h"
#include "experiments/validation/verdict_result.h"

namespace attest {
namespace {

struct FiguresOptions {
  ResultsArguments results;
  std::string folder;
  FigureRequest request;
  std::string style = "paper";
  std::optional<double> width;  ///< inches
  std::string by = "model";
  bool linear_axes = false;
};

Json json_of(const Finding& finding) {
  Json document = {{"text", finding.text}, {"severity", name_of(finding.severity)}, {"number", finding.number}};
  if (const std::optional<MapPlace>& place = finding.place)
    document["place"] = {{"metric", place->metric},
                         {"selector", place->selector},
                         {"setting", place->setting},
                         {"statistic", text_or_null(place->statistic)},
                         {"layer", place->layer ? Json(*place->layer) : Json()},
                         {"head", place->head ? Json(*place->head) : Json()}};
  return document;
}

Json json_of(const FigureReport& report, const std::string& folder) {
  Json document = {{"folder", folder}, {"experiments", Json::array()}, {"skipped", Json::array()}};
  for (const ExperimentMade& made : report.made) {
    Json one = {{"experiment", made.experiment}, {"paper", made.paper},     {"study", made.study},
                {"figures", Json::array()},      {"tables", Json::array()}, {"files", made.files},
                {"findings", Json::array()}};
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
  document["failed"] = report.failed;
  return document;
}

/// "quality_vs_io.{csv,gp,pdf}" for each figure and table.
std::string files_text(const ExperimentMade& made, const std::string& folder) {
  std::map<std::string, std::vector<std::string>> extensions;
  for (const std::string& file : made.files)
    extensions[file.substr(0, file.rfind('.'))].push_back(file.substr(file.rfind('.') + 1));
  std::string text;
  for (const auto& [name, list] : extensions)
    text += fmt::format("{}/{}.{{{}}}\n", printable(folder), name, join(list, ","));
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

void run_figures(FiguresOptions& options, const GlobalOptions& global) {
  FigureRequest request = options.request;
  request.page = page_style(options.style);
  request.page.width_in = options.width.value_or(request.page.width_in);
  request.options = ExperimentOptions(global.thread_count());
  request.options.linear_axes = options.linear_axes;
  refuse_existing({}, options.folder, request);  // before the work
  if (has_section(options.folder, kVerdictExperiment))
    throw OutputError(fmt::format("{} has a verdict of 'attest validate --details', expected another folder",
                                  printable(options.folder)));
  const ExperimentInputs inputs = read_inputs(split_inputs(options.results.paths()), options.results, request.only);
  warn_of_mixed_models(inputs.results, global);
  Progress progress("figures", global.quiet, kSilentSeconds);
  request.progress = [&](std::size_t done, std::size_t total) { progress.show(done, total, 0); };
  const std::vector<ModelStudy> studies =
      split_studies(inputs.results, request.options.threads, value_in(kPoolNames, options.by));
  FigureReport report = make_all_experiments(inputs, studies, request);
  progress.end();
  refuse_nothing(report);
  refuse_existing(report, options.folder, request);
  write_figures(report, options.folder, request);
  std::cout << (global.json ? json_of(report, options.folder).sort().dump(2) + "\n" : text_of(report, options.folder));
  if (!global.quiet) std::cerr << not_drawn_text(report, options.folder);
  std::cout.flush();
  refuse_failed(report, printable(options.folder));
}

}  // namespace

void add_figures(Command& program, const GlobalOptions& global) {
  auto options = std::make_shared<FiguresOptions>();
  Command& command =
      program.add_command("figures", "The paper's figures that results files can support: pictures, data, scripts");
  options->results.add_to(command, kOthersToo);
  command.option("-o,--output", options->folder, "Folder for the figures, made if it is not there")
      .required()
      .takes(folder_name())
      .type("DIR");
  command.option("--only", options->request.only, "These experiments, separated by commas")
      .separated()
      .takes(one_of(experiment_names()))
      .type("NAMES");
  command.option("--format", options->request.formats, "Pictures to draw")
      .separated()
      .takes(one_of(kFigureFormats))
      .shows_default()
      .type("NAMES");
  command.option("--style", options->style, "paper: 3.3 in, 7 pt. slides: 8 in, 14 pt, thicker lines")
      .takes(one_of(kPageStyles))
      .shows_default()
      .type("NAME");
  command.option("--width", options->width, "Width of the figures: 3.25in, 84mm (default: that of the style)")
      .takes(length_in_inches())
      .type("LENGTH");
  command.option("--by", options->by, "What is pooled into one row of panels: a model, its tasks or its lengths")
      .takes(one_of(names_in(kPoolNames)))
      .shows_default()
      .type("NAME");
  command.flag("--linear", options->linear_axes, "Linear axes for quality and errors instead of logarithmic ones");
  command.flag("--force", options->request.replace, "Replace figures that are there");
  command.on_run([options, &global] { run_figures(*options, global); });
}

}  // namespace attest
