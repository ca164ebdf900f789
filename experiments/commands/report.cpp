// attest report: results files as one page to read, explore and send.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "experiments/cli/checks.h"
#include "experiments/cli/figure_inputs.h"
#include "experiments/cli/output_file.h"
#include "experiments/cli/results_arguments.h"
#include "experiments/commands/commands.h"
#include "experiments/kernel_figures/kernel_experiments.h"
#include "experiments/outcomes/failure_prediction.h"
#include "experiments/paper/experiments.h"
#include "experiments/paper/staged_folder.h"
#include "experiments/report/gather_report.h"
#include "experiments/validation/claim_options.h"
#include "plots/report/html_report.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostCells = 10'000;

struct ReportCommandOptions {
  ResultsArguments results;
  std::string path;
  ReportOptions report;
  ClaimOptions claim;
  std::uint64_t bytes = kPageBytes;
  bool no_tokens = false, force = false;
};

constexpr const char* kSeverities[] = {"good", "note", "warning", "serious"};

nlohmann::ordered_json json_of(const ReportData& data, const HtmlReport& report, const std::string& path) {
  nlohmann::ordered_json document{{"path", path},
                                  {"bytes", report.html.size()},
                                  {"title", data.title},
                                  {"studied", data.studied},
                                  {"findings", nlohmann::json::array()}};
  for (const ReportFinding& f : data.findings)
    document["findings"].push_back({{"severity", kSeverities[static_cast<std::size_t>(f.severity)]},
                                    {"text", f.text},
                                    {"number", f.number},
                                    {"link", f.link}});
  document["cells"] = data.cells.size();
  document["arrays"] = {{"rounded", report.rounded}, {"left_out", report.left_out}};
  document["notes"] = data.figures_note;
  return document;
}

std::string text_of(const ReportData& data, const HtmlReport& report, const std::string& path) {
  std::string text = data.studied + "\n";
  for (const ReportFinding& f : data.findings)
    if (f.severity >= Severity::warning)
      text += fmt::format("{}: {}\n", kSeverities[static_cast<std::size_t>(f.severity)], f.text);
  if (!data.figures_note.empty()) text += data.figures_note + "\n";
  return text + fmt::format("{}: {} findings, {} of the worst cells, {:.1f} MB; open it in a browser\n", path,
                            data.findings.size(), data.cells.size(), static_cast<double>(report.html.size()) / 1e6);
}

void run_report(ReportCommandOptions& options, const GlobalOptions& global) {
  check_output_file(options.path, options.results.paths(), {.replace = options.force, .makes_folder = true});
  if (!options.claim.judgement.targets.empty()) {
    options.report.validation = judgement_options(options.claim, global);
    check_options(*options.report.validation);
  }
  const FigureInputs inputs = split_inputs(options.results.paths());
  if (inputs.results.empty())
    throw UsageError("a report needs results of attest run; attest figures makes the figures of a bench alone");
  options.report.benches = read_kernel_studies(inputs.benches);
  options.report.tasks = read_tasks_files(inputs.tasks);
  const ResultsFiles files = options.results.open(inputs.results);

  options.report.cells.tokens = !options.no_tokens;
  fs::path folder = fs::path(options.path).parent_path();
  if (folder.empty()) folder = ".";
  const StagedFolder drawing(folder);
  const ReportData data = gather_report(files, options.report, drawing.staging());
  const HtmlReport report = html_report(data, options.bytes);
  write_atomically(options.path, report.html, {.overwrite = options.force});
  if (global.json)
    std::cout << json_of(data, report, options.path).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
              << '\n';
  else
    std::cout << text_of(data, report, options.path);
}

}  // namespace

void add_report(CLI::App& app, const GlobalOptions& global) {
  auto options = std::make_shared<ReportCommandOptions>();
  CLI::App* command =
      app.add_subcommand("report", "One page with findings, figures, a map of layers and heads, the worst cells");
  options->results.add_to(*command, kOthersToo);
  command->add_option("-o,--output", options->path, "The page, one HTML file that needs nothing else")
      ->required()
      ->transform(text_that_is("a file's name"))
      ->type_name("HTML");
  command->add_option("--title", options->report.title, "Its title; default: the models' names")->type_name("TEXT");
  std::vector<std::string> names;
  for (const Experiment& experiment : experiments()) names.push_back(experiment.name);
  names.emplace_back(kFailurePrediction);
  for (const KernelExperiment& experiment : kernel_experiments()) names.push_back(experiment.name);
  command->add_option("--only", options->report.only, "Figures of these experiments, separated by commas; default: all")
      ->delimiter(',')
      ->transform(one_of(names))
      ->type_name("NAMES");
  command
      ->add_option("--cells", options->report.cells.most,
                   "Worst cells to list, of each selector by each of three criteria")
      ->transform(whole_number(0, kMostCells))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--size", options->bytes, "Of the page; the map has as many numbers, and digits, as fit")
      ->transform(byte_size())
      ->capture_default_str()
      ->type_name("SIZE");
  command->add_flag("--no-tokens", options->no_tokens, "Without token ids, which tell what the prompts were");
  add_claim_options(*command, options->claim, Targets::optional);
  command->add_flag("--force", options->force, "Replace the page if it is there");
  command->callback([options, command, &global] {
    check_claim_options(*command, options->claim);
    run_report(*options, global);
  });
}

}  // namespace attest
