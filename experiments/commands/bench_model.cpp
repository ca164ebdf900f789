// attest bench model: checks the options, and hands them over to attest.bench_model.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "experiments/bench/kernel/kernel_plan.h"
#include "experiments/cli/options/grid.h"
#include "experiments/cli/options/one_device.h"
#include "experiments/cli/options/output_file.h"
#include "experiments/cli/options/refuse_twice.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/cli/process/python_module.h"
#include "experiments/cli/process/version.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

constexpr const char* kDescription =
    "Tokens per second of a whole decoding model on a GPU: FFD beside LibTorch's attention, logits compared first";

constexpr const char* kFooter =
    R"(Each step of the model, its attention and its cache are one CUDA graph, which is replayed. Caches are made, as long
as the context says; random weights need no download.

Examples:
  attest bench model -o model.json && attest figures model.json -o figures
  attest bench model Qwen/Qwen3-8B --context 32K --batch 1 --keep 6% --device cuda:1
  attest bench model --dump dump.h5 --delta 5,7 -o model.json     # each head keeps what it keeps in the dump
)";

struct ModelBenchCommand {
  std::string model = "llama31-8b", contexts = "4K..128K", element_type, dump, deltas, output;
  std::vector<int> batches = {1, 8, 32};
  std::vector<double> keeps = {0.06, 0.27};
  int repeats = 32;
  bool replace = false;
};

Json request_of(const ModelBenchCommand& command, const GlobalOptions& global, const Option& keep) {
  const std::vector<std::int64_t> contexts = parse_lengths(command.contexts, "--context");
  constexpr std::int64_t kMin = 256;  // two blocks of FFD
  if (const std::int64_t shortest = *std::ranges::min_element(contexts); shortest < kMin)
    throw UsageError(fmt::format("--context: expected at least {} tokens, found {}", kMin, shortest));
  refuse_twice("--batch", command.batches);
  refuse_twice("--keep", command.keeps);
  if (std::ranges::count(command.keeps, 0.0) > 0) throw UsageError("--keep: expected shares above 0, found 0");
  if (command.dump.empty() != command.deltas.empty())
    throw UsageError("--dump and --delta belong together: heads keep what they keep of the dump at a delta");
  std::vector<double> deltas;
  if (!command.deltas.empty()) deltas = parse_numbers(command.deltas, "--delta");
  const bool of_dump_alone = !command.dump.empty() && !keep.is_given();
  const Device device = one_gpu(global, "bench model");
  Json request{{"model", command.model},
               {"output", command.output},
               {"dump", command.dump},
               {"context", contexts},
               {"batch", command.batches},
               {"keep", of_dump_alone ? std::vector<double>() : command.keeps},
               {"delta", deltas},
               {"element_type", command.element_type},
               {"repeats", command.repeats},
               {"device", fmt::format("cuda:{}", device.first_gpu())},
               {"device_memory", {{"share", device.memory.share}, {"bytes", device.memory.bytes}}},
               {"seed", global.seed},
               {"json", global.json},
               {"quiet", global.quiet},
               {"force", command.replace}};
  request.update(provenance());
  return request;
}

void run_bench_model(const ModelBenchCommand& command, const GlobalOptions& global, const Option& keep) {
  const Json request = request_of(command, global, keep);
  const std::vector<std::string> inputs = {command.model, command.dump};
  check_output_file(command.output, inputs, {.replace = command.replace});  // before minutes of measurements
  name_operator_library();
  exec_module(python_interpreter(), "attest.bench_model", {request_text(request)});
}

}  // namespace

void add_bench_model(Command& bench, const GlobalOptions& global) {
  Command& model = bench.add_command("model", kDescription);
  model.footer(kFooter);
  auto options = std::make_shared<ModelBenchCommand>();
  model
      .option(
          "MODEL", options->model,
          "llama31-8b or a config.json, with random weights; a folder or a name on the Hugging Face hub, with its own")
      .takes(file_name())
      .shows_default();
  model.option("--context", options->contexts, "Tokens of each sequence: 4K,16K, or 4K..128K, which doubles")
      .takes(text_that_is("a list such as 4K,16K or 4K..128K"))
      .shows_default();
  model.option("--batch", options->batches, "Sequences decoded at once")
      .separated()
      .takes(whole_number(1, 1024))
      .shows_default();
  Option& keep = model.option("--keep", options->keeps, "Shares of the tokens that FFD keeps, each head alike")
                     .separated()
                     .takes(share_of_one())
                     .shows_default("6%,27%, or none with --dump");
  model.option("--dump", options->dump, "Dump: FFD keeps of each head what it keeps there, layer by layer, at --delta")
      .takes(file_name())
      .type("DUMP");
  model.option("--delta", options->deltas, "Deltas of --dump").takes(text_that_is("a list such as 5,7"));
  model
      .option("--dtype,--element-type", options->element_type,
              "Of weights and caches (default: the checkpoint's, or bfloat16)")
      .takes(one_of({"float16", "bfloat16"}));
  model.option("--repeats", options->repeats, "Timed steps; the median is reported, with the least and the most")
      .takes(whole_number(1, 1000))
      .shows_default();
  model.option("-o,--output", options->output, "File for the record of the run, JSON").takes(file_name()).type("FILE");
  model.flag("--force", options->replace, "Replace the file if it is there");
  model.on_run([options, &global, &keep] { run_bench_model(*options, global, keep); });
}

}  // namespace attest
