// attest report: results files as one page to read, explore and send.
#include <fmt/core.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "experiments/cli/options/output_file.h"
#include "experiments/cli/output/progress.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/commands/commands.h"
#include "experiments/list/catalogue.h"
#include "experiments/report/gather_report.h"
#include "experiments/report/html_report.h"
#include "experiments/study_view/staged_folder.h"
#include "experiments/validation/guarantee_options.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxCells = 10'000;

struct ReportCommandOptions {
  ResultsArguments results;
  std::string path;
  ReportOptions report;
  GuaranteeOptions guarantee;
  std::uint64_t bytes = kPageBytes;
  bool no_tokens = false, force = false;
};

Json json_of(const ReportData& data, const HtmlReport& report, const std::string& path) {
  Json document{{"path", path},
                {"bytes", report.html.size()},
                {"title", data.title},
                {"studied", data.studied},
                {"findings", Json::array()}};
  for (const PageFinding& f : data.findings)
    document["findings"].push_back(
        {{"severity", name_of(f.severity)}, {"text", f.text}, {"number", f.number}, {"link", f.link}});
  document["cells"] = data.cells.size();
  document["arrays"] = {{"rounded", report.rounded}, {"left_out", report.left_out}};
  document["notes"] = data.figures_note;
  return document;
}

std::string text_of(const ReportData& data, const HtmlReport& report, const std::string& path) {
  std::string text = data.studied + "\n";
  for (std::size_t i = 0; i < data.findings.size(); ++i)
    if (const PageFinding& f = data.findings[i]; i < data.verdicts || f.severity >= Severity::warning)
      text += fmt::format("{}: {}\n", name_of(f.severity), f.text);
  if (!data.figures_note.empty()) text += data.figures_note + "\n";
  return text + fmt::format("{}: {} findings, {} of the worst cells, {:.1f} MB; open it in a browser\n",
                            printable(path), data.findings.size(), data.cells.size(),
                            static_cast<double>(report.html.size()) / 1e6);
}

void run_report(ReportCommandOptions& options, const GlobalOptions& global) {
  check_output_file(options.path, options.results.paths(), {.replace = options.force});
  if (const std::string kind = fs::path(options.path).extension(); !kind.empty() && kind != ".html" && kind != ".htm")
    throw UsageError(fmt::format("--output {}: the report is a page for a browser, expected a name that ends in .html",
                                 printable(options.path)));
  if (!options.guarantee.judgement.targets.empty()) {
    options.report.validation = judgement_options(options.guarantee, global);
    check_options(*options.report.validation);
  }
  const FigureInputs files = split_inputs(options.results.paths());
  if (files.results.empty())
    throw UsageError("a report needs results of attest run; attest figures makes the figures of a bench alone");
  const ExperimentInputs inputs = read_inputs(files, options.results, options.report.only);
  warn_of_mixed_models(inputs.results, global);

  options.report.threads = global.thread_count();
  options.report.cells.tokens = !options.no_tokens;
  fs::path folder = fs::path(options.path).parent_path();
  if (folder.empty()) folder = ".";
  const StagedFolder drawing(folder);
  Progress progress("figures", global.quiet, kSilentSeconds);
  options.report.progress = [&](std::size_t done, std::size_t total) { progress.show(done, total, 0); };
  const ReportData data = gather_report(inputs, options.report, drawing.staging());
  progress.end();
  const HtmlReport report = html_report(data, options.bytes);
  write_atomically(options.path, report.html, {.overwrite = options.force});
  if (global.json)
    std::cout << json_of(data, report, options.path).dump(2) << '\n';
  else
    std::cout << text_of(data, report, options.path);
}

}  // namespace

void add_report(Command& program, const GlobalOptions& global) {
  auto options = std::make_shared<ReportCommandOptions>();
  Command& command =
      program.add_command("report", "One page with findings, figures, a map of layers and heads, the worst cells");
  options->results.add_to(command, kOthersToo);
  command.option("-o,--output", options->path, "The page, one HTML file that needs nothing else")
      .required()
      .takes(file_name())
      .type("HTML");
  command.option("--title", options->report.title, "Its title; default: the models' names").type("TEXT");
  command.option("--only", options->report.only, "Figures of these experiments, separated by commas; default: all")
      .separated()
      .takes(one_of(experiment_names()))
      .type("NAMES");
  command
      .option("--cells", options->report.cells.maximum,
              "Worst cells to list, of each selector by each of three criteria")
      .takes(whole_number(0, kMaxCells))
      .shows_default()
      .type("N");
  command.option("--size", options->bytes, "Of the page; the map has as many numbers, and digits, as fit")
      .takes(byte_size())
      .shows_default()
      .type("SIZE");
  command.flag("--no-tokens", options->no_tokens, "Without token ids, which tell what the prompts were");
  add_guarantee_options(command, options->guarantee, Targets::optional);
  command.flag("--force", options->force, "Replace the page if it is there");
  command.on_run([options, &command, &global] {
    check_guarantee_options(command, options->guarantee);
    run_report(*options, global);
  });
}

}  // namespace attest
