// attest import: makes a dump from safetensors or npz files.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/text_parts.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/cli/process/python_module.h"
#include "experiments/cli/process/version.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

struct ImportCommand {
  std::string source, target;
  std::string q_names, k_names, v_names;  ///< name patterns
  std::string layout = "HTD", q_layout;
  std::vector<std::int64_t> positions;
  std::vector<std::string> spans;
  std::string sample = "sample", task = "imported", model = "imported", rope;
  double softmax_scale = 0, logit_softcap = 0;
  std::int64_t sliding_window = 0;
  std::vector<int> window_layers;
  int num_layers = 0, last = 0;
  bool bfloat16_bits = false, force = false;
};

constexpr int kMaxLayers = 1 << 20, kMaxRecorded = 1 << 20;

using Span = std::pair<std::int64_t, std::int64_t>;

Span parse_span(const std::string& text) {
  std::string_view rest = text;
  const std::optional<std::int64_t> begin = take_number<std::int64_t>(rest);
  const std::optional<std::int64_t> end = take(rest, ":") ? parse_number<std::int64_t>(rest) : std::nullopt;
  if (begin && end) return {*begin, *end};
  throw UsageError(fmt::format("--span: '{}' is not BEGIN:END", text));
}

void run_import(const ImportCommand& command, const GlobalOptions& global) {
  Json spans = Json::array();
  for (const std::string& text : command.spans) {
    const auto [begin, end] = parse_span(text);
    spans.push_back(Json::array({begin, end}));
  }
  // The fields of ImportOptions (experiments/python/attest/importing/plan.py).
  const Json options{{"q_names", command.q_names},
                     {"k_names", command.k_names},
                     {"v_names", command.v_names},
                     {"layout", command.layout},
                     {"q_layout", command.q_layout},
                     {"positions", command.positions},
                     {"spans", spans},
                     {"sample", command.sample},
                     {"task", command.task},
                     {"model", command.model},
                     {"rope", command.rope},
                     {"softmax_scale", command.softmax_scale},
                     {"logit_softcap", command.logit_softcap},
                     {"sliding_window", command.sliding_window},
                     {"window_layers", command.window_layers},
                     {"num_layers", command.num_layers},
                     {"last", command.last},
                     {"bfloat16_bits", command.bfloat16_bits}};
  const Json request{{"source", command.source}, {"target", command.target}, {"force", command.force},
                     {"quiet", global.quiet},    {"json", global.json},      {"options", options}};
  exec_module(python_interpreter(), "attest.importing", {request_text(request)});
}

}  // namespace

void add_import(Command& program, const GlobalOptions& global) {
  auto import = std::make_shared<ImportCommand>();
  ImportCommand& options = *import;
  Command& command = program.add_command("import", "Dump from arrays in safetensors or npz files");
  command.option("SOURCE", options.source, "A *.safetensors or *.npz file, a folder of them, or what an engine left")
      .required();
  command.option("-o,--output", options.target, "The dump").required().takes(file_name()).type("DUMP");
  const Check pattern = text_that_is("a pattern such as model.layers.{l}.q"), axes = text_that_is("axes such as HTD"),
              name = text_that_is("a name"), position = whole_number(0), layer = whole_number(0, kMaxLayers);
  command.option("--q", options.q_names, "Names of the queries: {l} is the layer, {s} the sample (default: usual ones)")
      .takes(pattern)
      .type("PATTERN");
  command.option("--k", options.k_names, "Names of the keys").takes(pattern).type("PATTERN");
  command.option("--v", options.v_names, "Names of the values").takes(pattern).type("PATTERN");
  command
      .option("--layout", options.layout,
              "Axes, slowest first: B sample, H head, T token or query, D channel; B may be added or missing")
      .takes(axes)
      .shows_default()
      .type("AXES");
  command.option("--q-layout", options.q_layout, "Axes of the queries, where they differ").takes(axes).type("AXES");
  command.option("--positions", options.positions, "Positions of the queries (default: the last ones)")
      .separated()
      .takes(position)
      .type("P,...");
  command.option("--span", options.spans, "Tokens that hold the answer, BEGIN:END; may be repeated")
      .separated()
      .takes(text_that_is("BEGIN:END"))
      .type("B:E");
  command.flag("--bfloat16-bits", options.bfloat16_bits, "Arrays of 16-bit integers (or NumPy's V2) hold bfloat16");
  command.option("--scale", options.softmax_scale, "Softmax scale; 0: 1/sqrt(head dim)")
      .takes(nonnegative_number())
      .shows_default();
  command.option("--softcap", options.logit_softcap, "Soft-cap of the scores; 0: none")
      .takes(nonnegative_number())
      .shows_default();
  command.option("--sliding-window", options.sliding_window, "Keys that a query sees; 0: all before it")
      .takes(position)
      .shows_default();
  command.option("--window-layers", options.window_layers, "Layers that have the window (default: all)")
      .separated()
      .takes(layer)
      .type("L,...");
  command.option("--num-layers", options.num_layers, "Layers of the model (default: the last one found)")
      .takes(whole_number(1, kMaxLayers));
  command.option("--last", options.last, "Queries of each request of FlashInfer's flight recorder (default: 4)")
      .takes(whole_number(1, kMaxRecorded))
      .type("N");
  command.option("--model", options.model, "Name of the model").takes(name).shows_default();
  command.option("--rope", options.rope, "Rotary parameters of the model, as a JSON object");
  command.option("--sample", options.sample, "Name of the sample where the patterns have no {s}")
      .takes(name)
      .shows_default();
  command.option("--task", options.task, "Task of the samples").takes(name).shows_default();
  command.flag("--force", options.force, "Replace the dump if it is there");
  command.on_run([import, &global] { run_import(*import, global); });
}

}  // namespace attest
