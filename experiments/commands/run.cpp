// attest run: the study, selectors x settings over dumps, to a results file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "analysis/results/results_file.h"
#include "analysis/run/study_run.h"
#include "analysis/statistics/summary.h"
#include "dumps/base/error.h"
#include "experiments/cli/grid.h"
#include "experiments/cli/interrupt.h"
#include "experiments/cli/progress.h"
#include "experiments/cli/selector_argument.h"
#include "experiments/cli/study_choice.h"
#include "experiments/cli/summary_table.h"
#include "experiments/commands/commands.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

/// What a run without --selector compares, as far as this build has it.
constexpr std::string_view kDefaultSelectors[] = {"ffd", "quest", "kivi", "twilight", "streaming_llm"};

struct RunOptions {
  std::vector<std::string> dumps;
  std::string output;
  std::vector<std::string> selectors;
  std::string delta, budget, p;  ///< grids as typed; empty: the default
  std::string lambdas = "0.25,0.5,1,1.5,2,3,4,6";
  double salient_delta = 5;
  std::string layers, samples;  ///< empty: all
  std::string queries = "all";
  bool resume = false;
  bool force = false;
  bool skip_bad_layers = false;
  bool with_dense_layers = false;
};

std::vector<SelectorSpec> selector_specs(const RunOptions& options) {
  std::vector<SelectorSpec> specs;
  for (const std::string& text : options.selectors) specs.push_back(parse_selector(text));
  if (specs.empty())
    for (const std::string_view name : kDefaultSelectors)
      for (const SelectorInfo* info : all_selectors())
        if (info->name == name) specs.push_back({std::string(name), std::string(name), {}});
  for (std::size_t i = 0; i < specs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (specs[i].label == specs[j].label)
        throw UsageError(fmt::format("two selectors have the label '{}'; give one another: --selector LABEL={}",
                                     specs[i].label, specs[i].name));
  return specs;
}

Grid grid_of(SettingKind kind, const RunOptions& options) {
  switch (kind) {
    case SettingKind::delta:
      return options.delta.empty() ? default_grid(kind) : parse_grid(kind, options.delta, "--delta");
    case SettingKind::budget:
      return options.budget.empty() ? default_grid(kind) : parse_grid(kind, options.budget, "--budget");
    case SettingKind::p:
      return options.p.empty() ? default_grid(kind) : parse_grid(kind, options.p, "--p");
    case SettingKind::none:
      break;
  }
  return default_grid(kind);
}

RequestedSelector request_selector(const SelectorSpec& spec, const RunOptions& options) {
  const std::shared_ptr<Selector> selector = make_selector(spec);
  const SettingKind kind = selector->setting_kind();
  const Grid grid = grid_of(kind, options);
  nlohmann::ordered_json resolved = nlohmann::ordered_json::object();
  for (const OptionValue& option : selector->options()) resolved[option.name] = option.value;
  SelectorGroup description{.label = spec.label,
                            .selector = spec.name,
                            .setting = std::string(name_of(kind)),
                            .options_json = resolved.dump(),
                            .settings = {},
                            .setting_labels = grid.labels};
  for (const Setting& setting : grid.settings) description.settings.push_back(setting.value);
  return {{spec.label, selector, grid.settings},
          std::move(description),
          selector->calibration_samples().empty() ? nullptr : selector};
}

StudyRequest make_request(const RunOptions& options, const GlobalOptions& global) {
  StudyRequest request;
  request.dumps = options.dumps;
  request.output = options.output;
  // A grid that no selector uses is checked all the same: a typing error should not wait for the selector that needs
  // it.
  for (const SettingKind kind : {SettingKind::delta, SettingKind::budget, SettingKind::p}) grid_of(kind, options);
  for (const SelectorSpec& spec : selector_specs(options)) {
    request.selectors.push_back(request_selector(spec, options));
    request.selectors.back().by_default = options.selectors.empty();
  }
  if (!options.layers.empty()) request.choice.layers = parse_layers(options.layers);
  if (!options.samples.empty()) request.choice.samples = parse_names(options.samples);
  request.choice.queries = parse_queries(options.queries);
  if (!(options.salient_delta >= 0)) throw UsageError("--salient-delta: expected a number of at least 0");
  request.salient_delta = options.salient_delta;
  request.lambdas = parse_numbers(options.lambdas, "--lambdas");
  request.skip_bad_layers = options.skip_bad_layers;
  request.resume = options.resume;
  request.force = options.force;
  request.device = global.resolved_device();
  request.threads = global.thread_count();
  return request;
}

/// Of this process, as it was started.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

std::string how_text(const StudyReport& report, const std::string& output) {
  switch (report.how) {
    case StudyReport::How::found_complete:
      return fmt::format("'{}' is complete already; nothing was left to do", output);
    case StudyReport::How::completed_by_another_process:
      return fmt::format("another process has completed '{}'", output);
    case StudyReport::How::computed:
      break;
  }
  return report.progress.resumed == 0 ? std::string()
                                      : fmt::format("resumed: {} of {} layers were finished before",
                                                    report.progress.resumed, report.progress.total);
}

void run(const RunOptions& options, const GlobalOptions& global) {
  StudyRequest request = make_request(options, global);
  request.command_line = command_line();
  const InterruptFlag interrupt;
  Progress progress("layers", global.quiet);
  const StudyReport report =
      run_study_request(request, interrupt.flag(),
                        {.started =
                             [&](const std::string& device) {
                               if (!request.device.notice.empty()) progress.notice(request.device.notice);
                               progress.notice(fmt::format("device: {}", device));
                             },
                         .progress = [&](const StudyProgress& p) { progress.show(p.finished, p.total, p.resumed); },
                         .notice = [&](const std::string& text) { progress.notice("warning: " + text); }});
  progress.end();
  if (const std::string text = how_text(report, request.output); !text.empty()) progress.notice(text);

  const Summary summary = summarize(ResultsFile(request.output), options.with_dense_layers);
  for (const std::string& label : summary.dropped_nothing)
    progress.notice(fmt::format(
        "warning: selector '{}' dropped nothing at any setting: it kept every token of every query", label));
  if (global.json) {
    nlohmann::ordered_json document = summary_json(summary);
    document["results"] = request.output;
    document["device"] = report.device;
    std::cout << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  } else {
    std::cout << summary_table(summary) << fmt::format("Results: {}\n", request.output);
  }
}

}  // namespace

void add_run(CLI::App& app, const GlobalOptions& global) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Study selectors on dumps: selectors x settings -> results");
  command->add_option("DUMP", options->dumps, "Attention dumps")->required();
  command->add_option("-o,--output", options->output, "Results file to write")->required()->type_name("FILE");
  command
      ->add_option("--selector", options->selectors, "[LABEL=]NAME[:option=value,...]; may be repeated ('attest list')")
      ->allow_extra_args(false)
      ->type_name("SELECTOR");
  const auto grid = [&](const char* name, std::string& target, const char* help) {
    command->add_option(name, target, help)->join(',')->type_name("GRID");
  };
  grid("--delta", options->delta, "Deltas: a,b,c or start:stop:step, or inf (default 1:12:0.5)");
  grid("--budget", options->budget, "Budgets in tokens or per cent: 1024,25% (default 1024 and 1.5625% to 100%)");
  grid("--p", options->p, "Shares of attention mass (default 0.5,0.7,0.8,0.85,0.9,0.95,0.99,0.999)");
  grid("--lambdas", options->lambdas, "Where the tails of the scan error are measured");
  command
      ->add_option("--salient-delta", options->salient_delta,
                   "Salient: at most this far below the largest score, in nats")
      ->capture_default_str()
      ->type_name("X");
  command->add_option("--layers", options->layers, "Layers: 0-31 or 0,5,8-11 (default all)")
      ->join(',')
      ->type_name("LIST");
  command->add_option("--samples", options->samples, "Samples by name: a,b (default all)")
      ->join(',')
      ->type_name("NAMES");
  command->add_option("--queries", options->queries, "all, last:N, or positions: 1000,2047")
      ->join(',')
      ->capture_default_str()
      ->type_name("WHICH");
  command->add_flag("--resume", options->resume, "Go on with an unfinished study of the same options and inputs");
  command->add_flag("--force", options->force, "Replace an existing results file, or start an unfinished study over");
  command->add_flag("--skip-bad-layers", options->skip_bad_layers,
                    "Leave layers with NaN or Inf out instead of failing");
  command->add_flag("--with-dense-layers", options->with_dense_layers,
                    "Include dense layers in the summary's averages");
  command->callback([options, &global] { run(*options, global); });
}

}  // namespace attest
