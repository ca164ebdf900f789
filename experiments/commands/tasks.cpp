// attest tasks: parses selectors and grids, and hands them with all other options to attest.tasks.
#include <fmt/core.h>

#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/run/estimate_inputs.h"
#include "analysis/torch_ops/attend.h"
#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/json_numbers.h"
#include "dumps/base/printable.h"
#include "experiments/cli/options/one_device.h"
#include "experiments/cli/options/output_file.h"
#include "experiments/cli/options/selector_grids.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/cli/process/python_module.h"
#include "experiments/cli/process/version.h"
#include "experiments/commands/commands.h"
#include "experiments/run/study_run.h"
#include "kernels/selectors/selector_text.h"

namespace attest {
namespace {

constexpr const char* kDescription =
    "Task outcomes of a Hugging Face model that decodes through selectors: prompts -> answers, right or wrong";

constexpr const char* kFooter = R"(How a prompt is answered:
  The prompt is read once, with the model's own attention. Then the model answers, first with its own attention (the run
  "dense"), then through each selector at each setting: from the prompt's last token on, every row attends through it.
  The cache is cut back to the prompt between the runs. An answer ends at an end-of-sequence token, with the first line
  beyond the known answer's, or after --max-new-tokens. exact, contains and prefix score it.

Prompts: --tasks makes them (or all tasks, if --prompts is no file); 'attest prompts --help' lists the tasks. A .jsonl
  file has prompts as 'attest capture' reads them, each with its "answer". --seed, a common option, makes others.

Example:
  attest tasks --model Qwen/Qwen3-8B --selector ffd --delta 1:12:1 --selector quest --budget 256,1024 \
      --tasks kv,mk --context 4K,16K --prompts 24 -o tasks.h5 --dump dump.h5

attest inspect tasks.h5 shows what it holds.
)";

/// An option that the script parses.
struct PassedOption {
  const char *name, *type, *text;
};
constexpr PassedOption kPassed[] = {
    {"--model", "NAME", "Name on the Hugging Face hub, or folder of a checkpoint"},
    {"--output", "FILE", "The outcomes file to write"},
    {"--tasks", "NAMES", "Make prompts of these tasks: kv,mk (default: all)"},
    {"--context", "LIST", "Tokens of a made prompt, without its answer and a chat template: 4K,16K (default 4K)"},
    {"--prompts", "N|FILE", "Made prompts of each task and length (default 4), or a .jsonl file of prompts"},
    {"--haystack", "PATH", "Text file or folder that made prompts hide lines in (default: this program's sources)"},
    {"--layers", "LIST",
     "Layers that go through the selector: 0,4,8-11 or 2-, from 2 on (default all); others are dense"},
    {"--max-new-tokens", "N", "Longest answer (default: 8 tokens more than the known one)"},
    {"--dump", "DUMP", "Capture the queries of the answer on the same prompts, too"},
    {"--dump-queries", "N", "Of --dump: only those of the answer's first N tokens (default all)"},
    {"--dump-layers", "LIST", "Of --dump: these layers (default all)"},
    {"--model-name", "NAME", "What the files call the model (default: --model)"},
    {"--tokenizer", "NAME", "Another tokenizer; \"bytes\": UTF-8 bytes, after the model's first token if it has one"},
    {"--first-token", "ID", "Of \"bytes\": the first token (default: the model's)"},
    {"--dtype", "TYPE", "Run the model in float16, bfloat16 or float32 (default: the checkpoint's)"},
    {"--revision", "REV", "Branch, tag or commit on the hub"},
};
constexpr std::string_view kFirstAfterSelectors = "--tasks";
constexpr PassedOption kFlags[] = {
    {"--forced", "", "Feed the known answer in one pass instead of decoding: scores prefix alone, much faster"},
    {"--head-weights", "", "Of --dump: also gradients of the answer's margins by the outputs of the heads"},
    {"--output-gradients", "", "Of --dump: these gradients themselves, too"},
    {"--chat", "", "Put each prompt into the tokenizer's chat template, as the user's"},
    {"--trust-remote-code", "", "Let the checkpoint bring its own code"},
    {"--resume", "", "Go on with unfinished outcomes of the same options and prompts"},
    {"--force", "", "Replace existing files, or start unfinished outcomes over"},
};

struct TasksCommand {
  SelectorGrids selectors;
  std::map<std::string, std::string> values;  ///< of kPassed; an empty one was not given
  std::map<std::string, bool> flags;
};

/// The fields that python/attest/tasks/runs.py reads.
Json selector_json(const StudySelector& selector, const std::string& text) {
  Json settings = Json::array();
  for (std::size_t s = 0; s < selector.grid.size(); ++s)
    settings.push_back(
        Json::array({number_or_text(selector.grid[s].value), selector.grid[s].percent, selector.setting_labels[s]}));
  return {{"label", selector.label},
          {"selector", selector.name},
          {"text", text},
          {"options", selector.options_json},
          {"setting_kind", name_of(selector.kind)},
          {"settings", settings}};
}

/// The selectors as JSON. Throws UsageError for one that a model cannot attend through.
Json selectors_json(const SelectorGrids& options, std::span<const std::string> outputs, const GlobalOptions& global) {
  if (options.selectors.empty()) throw UsageError("--selector is required: it names what the model attends through");
  Study study;
  study.selectors = chosen_selectors(options);
  for (const std::string& output : outputs) refuse_taken(output, input_files(study));
  Json all = Json::array();
  for (std::size_t i = 0; i < study.selectors.size(); ++i) {
    const std::string text = selector_text(parse_selector(options.selectors[i]));
    if (as_utf8(text) != text)
      throw UsageError(fmt::format("--selector: '{}' is not UTF-8, as operators of PyTorch need it", printable(text)));
    if (study.selectors[i].label == "dense")
      throw UsageError("--selector: the label 'dense' is that of the run without a selector; give it another one");
    try {
      selector_of(text);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--selector: {}", error.what()));
    }
    all.push_back(selector_json(study.selectors[i], text));
  }
  if (!global.quiet)
    for (const std::string& notice : study_notices(study, options.grids))
      std::cerr << printable("warning: " + notice) << '\n';
  return all;
}

/// The device as torch names it. The script decides about "auto": the operator library may have no code for a GPU.
std::string torch_device(const GlobalOptions& global) {
  if (global.device == "auto") return global.device;
  const Device device = one_device(global, "tasks");
  return device.kind == DeviceKind::cuda ? fmt::format("cuda:{}", device.first_gpu()) : "cpu";
}

void run_tasks(TasksCommand command, const GlobalOptions& global) {
  const std::vector<std::string> outputs{command.values["--output"], command.values["--dump"]};
  Json request = provenance();
  request["selectors"] = selectors_json(command.selectors, outputs, global);
  std::vector<std::string> arguments{"--request=" + request_text(request)};
  for (const auto& [name, value] : command.values)
    if (!value.empty()) arguments.push_back(fmt::format("{}={}", name, value));
  for (const auto& [name, given] : command.flags)
    if (given) arguments.push_back(name);
  if (global.quiet) arguments.emplace_back("--quiet");
  if (global.json) arguments.emplace_back("--json");
  arguments.push_back("--device=" + torch_device(global));
  arguments.push_back(fmt::format("--threads={}", global.thread_count()));
  arguments.push_back(fmt::format("--seed={}", global.seed));
  name_operator_library();
  exec_module(python_interpreter(), "attest.tasks", arguments);
}

}  // namespace

void add_tasks(Command& program, const GlobalOptions& global) {
  const auto options = std::make_shared<TasksCommand>();
  Command& command = program.add_command("tasks", kDescription);
  command.footer(kFooter);
  for (const PassedOption& option : kPassed) {
    const std::string name = option.name;
    if (name == kFirstAfterSelectors) add_selector_options(command, options->selectors);
    const std::string names = name == "--output" ? "-o,--output" : name == "--dtype" ? "--dtype,--element-type" : name;
    Option& added =
        command.option(names, options->values[name], option.text).takes(text_that_is("a value")).type(option.type);
    if (option.type == std::string("LIST") || option.type == std::string("NAMES")) added.joined();
    if (name == "--model" || name == "--output") added.required();
  }
  for (const PassedOption& flag : kFlags) command.flag(flag.name, options->flags[flag.name], flag.text);
  command.on_run([options, &global] { run_tasks(*options, global); });
}

}  // namespace attest
