// attest import: safetensors or npz to a dump.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/import/tensor_import.h"
#include "dumps/import/tensor_source.h"
#include "experiments/cli/writing_progress.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

struct ImportCommand {
  std::string source, target;
  ImportOptions options;
  std::vector<std::string> spans;
  bool force = false;
};

TokenSpan parse_span(const std::string& text) {
  TokenSpan span;
  const char* end = text.data() + text.size();
  const auto begin = std::from_chars(text.data(), end, span.begin);
  if (begin.ec == std::errc{} && begin.ptr != end && *begin.ptr == ':') {
    const auto rest = std::from_chars(begin.ptr + 1, end, span.end);
    if (rest.ec == std::errc{} && rest.ptr == end) return span;
  }
  throw UsageError(fmt::format("--span: expected BEGIN:END, found '{}'", text));
}

void run_import(const ImportCommand& command, const GlobalOptions& global) {
  ImportOptions options = command.options;
  for (const std::string& text : command.spans) options.spans.push_back(parse_span(text));
  const auto source = open_tensor_source(command.source);
  const ImportPlan plan = plan_import(*source, command.source, options);
  WritingProgress progress(command.target, global.quiet);
  write_import(*source, plan, options, command.target, command.force, std::ref(progress));
  progress.end();
  const double seconds = progress.seconds();

  std::size_t layers = 0;
  for (const ImportPlan::Sample& sample : plan.samples) layers += sample.layers.size();
  if (global.json) {
    const nlohmann::ordered_json report{{"path", command.target},
                                        {"samples", plan.samples.size()},
                                        {"layers", layers},
                                        {"query_heads", plan.shape.num_query_heads},
                                        {"kv_heads", plan.shape.num_kv_heads},
                                        {"head_dim", plan.shape.head_dim},
                                        {"value_dim", plan.shape.value_dim},
                                        {"bytes", plan.bytes},
                                        {"seconds", seconds}};
    std::cout << report.dump(2) << '\n';
    return;
  }
  const ImportPlan::Sample& first = plan.samples.front();
  std::cout << fmt::format(
      "{}: {} sample(s), {} layer(s) in all, {} query and {} KV heads of {} channels (values {}), {:.1f} MB in {:.1f} "
      "s\n"
      "sample '{}': {} tokens, {} query position(s) {} .. {}\n",
      command.target, plan.samples.size(), layers, plan.shape.num_query_heads, plan.shape.num_kv_heads,
      plan.shape.head_dim, plan.shape.value_dim, static_cast<double>(plan.bytes) / 1e6, seconds, first.name,
      first.num_tokens, first.query_positions.size(), first.query_positions.front(), first.query_positions.back());
}

}  // namespace

void add_import(CLI::App& app, const GlobalOptions& global) {
  auto import = std::make_shared<ImportCommand>();
  ImportOptions& options = import->options;
  CLI::App* command = app.add_subcommand("import", "Dump from arrays in safetensors or npz files");
  command->add_option("source", import->source, "A *.safetensors or *.npz file, or a folder of them")->required();
  command->add_option("-o,--output", import->target, "The dump")->required()->type_name("DUMP");
  command
      ->add_option("--q", options.q_names,
                   "Names of the queries: {l} is the layer, {s} the sample (default: usual ones)")
      ->type_name("PATTERN");
  command->add_option("--k", options.k_names, "Names of the keys")->type_name("PATTERN");
  command->add_option("--v", options.v_names, "Names of the values")->type_name("PATTERN");
  command
      ->add_option("--layout", options.layout,
                   "Axes, slowest first: B sample, H head, T token or query, D channel; B may be added or missing")
      ->capture_default_str()
      ->type_name("AXES");
  command->add_option("--q-layout", options.q_layout, "Axes of the queries, where they differ")->type_name("AXES");
  command->add_option("--positions", options.positions, "Positions of the queries (default: the last ones)")
      ->delimiter(',')
      ->type_name("P,...");
  command->add_option("--span", import->spans, "Tokens that hold the answer, BEGIN:END; may be repeated")
      ->delimiter(',')
      ->type_name("B:E");
  command->add_flag("--bfloat16-bits", options.bfloat16_bits,
                    "Arrays of 16-bit integers (or NumPy's V2) hold bfloat16");
  command->add_option("--scale", options.softmax_scale, "Softmax scale; 0: 1/sqrt(head dim)")->capture_default_str();
  command->add_option("--softcap", options.logit_softcap, "Soft-cap of the scores; 0: none")->capture_default_str();
  command->add_option("--sliding-window", options.sliding_window, "Keys that a query sees; 0: all before it")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--window-layers", options.window_layers, "Layers that have the window (default: all)")
      ->delimiter(',')
      ->type_name("L,...");
  command->add_option("--num-layers", options.num_layers, "Layers of the model (default: the last one found)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--model", options.model, "Name of the model")->capture_default_str();
  command->add_option("--rope", options.rope, "Rotary parameters of the model, as JSON");
  command->add_option("--sample", options.sample, "Name of the sample where the patterns have no {s}")
      ->capture_default_str();
  command->add_option("--task", options.task, "Task of the samples")->capture_default_str();
  command->add_flag("--force", import->force, "Replace the dump if it is there");
  command->callback([import, &global] { run_import(*import, global); });
}

}  // namespace attest
