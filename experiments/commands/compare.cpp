// attest compare: what changed between two studies of the same prompts.
#include <fmt/core.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "analysis/results/results_file.h"
#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/cli/options/output_file.h"
#include "experiments/cli/options/study_choice.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/commands/commands.h"
#include "experiments/compare/comparison_formats.h"
#include "experiments/compare/comparison_sentences.h"
#include "experiments/tables/table_columns.h"

namespace attest {
namespace {

constexpr std::string_view kDefaultMetrics = "recall,recall.min,lse_error.max,mass_recall,keep_ratio,io_ratio";

struct CompareOptions {
  std::string first, second;
  std::vector<std::string> metrics, settings, selectors;
  std::string layers, output;
  double confidence = 0.95;
  bool force = false, same_bytes = false;
};

ComparisonRequest request_of(const CompareOptions& options, const GlobalOptions& global) {
  if (!(options.confidence > 0 && options.confidence < 1))
    throw UsageError(fmt::format("--confidence: '{}' is not between 0 and 1", options.confidence));
  return {.metrics = parse_columns(options.metrics.empty() ? parse_names(kDefaultMetrics) : options.metrics),
          .only_common_metrics = options.metrics.empty(),
          .selectors = options.selectors,
          .settings = options.settings,
          .layers = options.layers.empty() ? std::vector<std::pair<int, int>>{} : parse_layers(options.layers),
          .same_bytes = options.same_bytes,
          .test = {.confidence = options.confidence, .seed = global.seed},
          .threads = global.thread_count()};
}

/// The content of the output file, by its name.
using Formatter = std::string (*)(const Comparison&);
Formatter formatter_of(const std::string& output) {
  const std::string extension = std::filesystem::path(output).extension();
  if (extension == ".md") return comparison_markdown;
  if (extension == ".csv") return comparison_csv;
  if (extension == ".json")
    return [](const Comparison& comparison) { return comparison_json(comparison).dump(2) + "\n"; };
  throw UsageError(fmt::format("--output: '{}' ends neither in .md, .csv nor .json", printable(output)));
}

void run_compare(const CompareOptions& options, const GlobalOptions& global) {
  const ComparisonRequest request = request_of(options, global);
  const Formatter formatter = options.output.empty() ? nullptr : formatter_of(options.output);
  check_output_file(options.output, std::vector{options.first, options.second}, {.replace = options.force});
  const ResultsFile first(options.first), second(options.second);
  const Comparison comparison = compare_studies(first, second, request);
  if (formatter != nullptr) write_atomically(options.output, formatter(comparison), {.overwrite = options.force});
  if (global.json)
    std::cout << comparison_json(comparison).dump(2) << '\n';
  else if (formatter == nullptr)
    std::cout << comparison_text(comparison);
  else
    std::cout << fmt::format("{}: {}\n", printable(options.output), summary_sentence(comparison));
}

}  // namespace

void add_compare(Command& program, const GlobalOptions& global) {
  auto options = std::make_shared<CompareOptions>();
  Command& command = program.add_command(
      "compare", "What changed between two studies of the same prompts: paired differences, tested prompt by prompt");
  command.option("R1", options->first, "Results file of `attest run`").required();
  command.option("R2", options->second, "Results file to compare with it, perhaps the same; differences are R2 - R1")
      .required();
  command
      .option("--metrics", options->metrics,
              fmt::format("METRIC[.STAT], separated by commas, as columns of 'attest table': STAT makes one number "
                          "of each prompt's cells. Default: those of {} that both files have",
                          kDefaultMetrics))
      .separated()
      .takes(text_that_is("a metric such as recall.min"))
      .type("LIST");
  command
      .option("--selectors", options->selectors,
              "LABEL, LABEL1=LABEL2 for two selectors, or LABEL1@SETTING=LABEL2@SETTING for two settings, also of "
              "different kinds, separated by commas (default: every label in both)")
      .separated()
      .takes(text_that_is("a label, or LABEL1=LABEL2"))
      .type("LABELS");
  command.option("--settings", options->settings, "Settings such as 5,1024,12.5% (default: all that both have)")
      .separated()
      .takes(text_that_is("a setting such as 5 or 12.5%"))
      .type("LIST");
  command.option("--layers", options->layers, "Layers to compare, such as 0-15,31 (default all)")
      .takes(text_that_is("layers such as 0-15,31"))
      .type("LIST");
  command.option("--confidence", options->confidence, "Of verdicts and intervals, such as 95% (the default) or 0.99")
      .takes(share_of_one())
      .type("NUMBER");
  command.option("-o,--output", options->output, "File to write: .md, .csv or .json (default: standard output)")
      .takes(file_name())
      .type("FILE");
  command.flag("--same-bytes", options->same_bytes,
               "Compare each setting of R1 with the one of R2 that reads most without reading more (io_ratio)");
  command.flag("--force", options->force, "Replace the output if it is there");
  command.on_run([options, &global] { run_compare(*options, global); });
}

}  // namespace attest
