// attest table: means, ladders and worst cases of results as a table.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/cli/options/output_file.h"
#include "experiments/cli/options/results_arguments.h"
#include "experiments/cli/options/study_choice.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/commands/commands.h"
#include "experiments/tables/results_table.h"

namespace attest {
namespace {

struct TableOptions {
  ResultsArguments results;
  std::vector<std::string> by = {"selector"};
  std::vector<std::string> metrics = parse_names(kDefaultColumns);
  std::vector<std::string> settings, selectors;
  std::string format, output;
  bool with_dense_layers = false, force = false;
};

/// The format of the output file, by --format or its name; without an output file, of what is printed.
std::string format_of(const TableOptions& options, const GlobalOptions& global) {
  const bool prints_json = global.json && options.output.empty();
  if (prints_json && !options.format.empty() && options.format != "json")
    throw UsageError(fmt::format("--json and --format {} contradict each other", options.format));
  if (prints_json) return "json";
  if (!options.format.empty()) return options.format;
  const std::map<std::string, std::string> by_extension = {
      {".csv", "csv"}, {".md", "md"}, {".tex", "latex"}, {".json", "json"}};
  const auto known = by_extension.find(std::filesystem::path(options.output).extension().string());
  return known == by_extension.end() ? "text" : known->second;
}

TableRequest request_of(const TableOptions& options, const GlobalOptions& global) {
  TableRequest request{.columns = parse_columns(options.metrics),
                       .by = {},
                       .selectors = options.selectors,
                       .settings = options.settings,
                       .with_dense_layers = options.with_dense_layers,
                       .threads = global.thread_count()};
  for (const std::string& typed : options.by)
    for (const auto& [grouping, name] : kGroupingNames)
      if (typed == name && std::ranges::count(request.by, grouping) == 0) request.by.push_back(grouping);
  return request;
}

void run_table(TableOptions& options, const GlobalOptions& global) {
  const std::string format = format_of(options, global);
  const TableRequest request = request_of(options, global);
  check_output_file(options.output, options.results.paths(), {.replace = options.force});
  const ResultsFiles files = options.results.open();
  warn_of_mixed_models(files, global);

  const ResultsTable table = make_results_table(files, request);
  const std::string notes = table_notes(table);
  const bool with_model = std::ranges::count(options.by, "model") > 0;
  std::string text = formatted_table(table, format, with_model);
  // csv, LaTeX and JSON have no place for a sentence; JSON has its facts.
  const bool has_place = format == "text" || format == "md";
  if (has_place && !notes.empty()) text += (format == "md" ? "\n" : "") + notes + "\n";
  if (!options.output.empty()) write_atomically(options.output, text, {.overwrite = options.force});
  if (options.output.empty())
    std::cout << text;
  else if (global.json)
    std::cout << formatted_table(table, "json", with_model);
  if (!has_place && format != "json" && !notes.empty() && !global.quiet) std::cerr << notes << '\n';
}

}  // namespace

void add_table(Command& program, const GlobalOptions& global) {
  auto options = std::make_shared<TableOptions>();
  Command& command =
      program.add_command("table", "Means, ladders and worst cases of results files by selector and setting");
  options->results.add_to(command);
  std::vector<std::string> groupings{"selector", "model"};
  for (const auto& [grouping, name] : kGroupingNames) groupings.emplace_back(name);
  command
      .option("--by", options->by,
              "What splits the rows of a selector and setting, separated by commas; models are never averaged")
      .separated()
      .takes(one_of(groupings))
      .type("NAMES");
  command
      .option("--metrics", options->metrics,
              fmt::format("Columns METRIC[.STAT], separated by commas. METRIC: of 'attest list', span_recall, "
                          "NAME_deficit (1 - NAME), dropped_mass. STAT: mean (the default), std, min, max, worst, "
                          "median, pNN, pNN.N, count, ladder. Default {}",
                          kDefaultColumns))
      .separated()
      .takes(text_that_is("a column such as recall.min"))
      .type("COLUMNS");
  command.option("--selectors", options->selectors, "Labels of selectors, separated by commas (default all)")
      .separated()
      .takes(text_that_is("a label"))
      .type("LABELS");
  command.option("--settings", options->settings, "Settings such as 5,1024,12.5% (default all)")
      .separated()
      .takes(text_that_is("a setting such as 5 or 12.5%"))
      .type("LIST");
  command.flag("--with-dense-layers", options->with_dense_layers,
               "Include layers that are dense in some of the selectors");
  command.option("--format", options->format, "Default: by the output's name (.csv, .md, .tex, .json), else text")
      .takes(one_of(kTableFormats))
      .type("NAME");
  command.option("-o,--output", options->output, "File to write (default: standard output)")
      .takes(file_name())
      .type("FILE");
  command.flag("--force", options->force, "Replace the output if it is there");
  command.on_run([options, &global] { run_table(*options, global); });
}

}  // namespace attest
