// attest bench kernel: speed of decode kernels on this machine's GPU.
#include <fmt/core.h>

#include <chrono>
#include <exception>
#include <iostream>
#include <memory>

#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/utc_time.h"
#include "experiments/bench/kernel/kernel_bench.h"
#include "experiments/bench/kernel/kernel_text.h"
#include "experiments/cli/options/grid.h"
#include "experiments/cli/options/one_device.h"
#include "experiments/cli/options/output_file.h"
#include "experiments/cli/options/refuse_twice.h"
#include "experiments/cli/options/study_choice.h"
#include "experiments/cli/output/progress.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/cli/process/interrupt.h"
#include "experiments/cli/process/version.h"
#include "experiments/commands/commands.h"
#include "kernels/device/on_cuda.h"

namespace attest {
namespace {

/// Within it a measurement ends, or the inputs of the next are made.
constexpr std::chrono::seconds kMeasurementGrace{10};

struct KernelBenchCommand {
  KernelBenchOptions bench;
  KernelTimingOptions timing;
  std::string lengths = "4K..256K", deltas = "5,7", layers, element_type = "float16", sub_block = "128";
  std::string samples, output;
  bool replace = false;
};

/// Parses the options that CLI11 leaves as text.
void finish_options(KernelBenchCommand& command) {
  KernelBenchOptions& bench = command.bench;
  bench.plan.lengths = parse_lengths(command.lengths);
  bench.plan.deltas = parse_numbers(command.deltas, "--delta");
  refuse_twice("--batch", bench.plan.batches);
  refuse_twice("--keep", bench.plan.keeps);
  refuse_twice("--only", bench.plan.experiments);
  if (std::ranges::find(bench.plan.keeps, 0.0) != bench.plan.keeps.end())
    throw UsageError("--keep: expected shares above 0, found 0");
  if (!command.layers.empty()) bench.layers = parse_layers(command.layers);
  if (!command.samples.empty()) bench.samples = parse_names(command.samples);
  if (bench.dump.empty() && !(bench.layers.empty() && bench.samples.empty()))
    throw UsageError("--layers and --samples choose from a dump, expected --dump with them");
  bench.element_type = command.element_type == "float16" ? ElementType::float16 : ElementType::bfloat16;
  command.timing.sub_block = std::stoi(command.sub_block);
  AttentionShape& shape = bench.shape;
  shape.value_dim = shape.head_dim;
  if (shape.num_query_heads % shape.num_kv_heads != 0)
    throw UsageError(fmt::format("--heads is {}, expected a multiple of --kv-heads, which is {}", shape.num_query_heads,
                                 shape.num_kv_heads));
}

void run_bench_kernel(KernelBenchCommand& command, const GlobalOptions& global) {
  finish_options(command);
  command.bench.seed = global.seed;
  command.bench.threads = global.thread_count();
  // The output is checked before minutes of measurements.
  check_output_file(command.output, {&command.bench.dump, 1}, {.replace = command.replace});
  const Device device = one_gpu(global, "bench kernel");
  Progress progress("measurements", global.quiet);
  const InterruptFlag interrupt(kMeasurementGrace);
  auto [report, ended_by] = bench_kernels(
      command.bench, [&] { return call_on_cuda<make_cuda_kernel_session>(device, command.timing); },
      {.progress = [&](std::size_t done, std::size_t total) { progress.show(done, total, 0); },
       .notice = [&](const std::string& line) { progress.notice(line); }},
      interrupt.flag());
  progress.end();
  const Version version = program_version();
  report.program_version = version.program;
  report.program_commit = version.git_commit;
  report.created = utc_time(std::chrono::system_clock::now());
  report.machine.torch = libtorch_version();
  report.arguments = command_line();
  report.arguments.erase(report.arguments.begin());
  const std::string json = json_of(report).dump(1) + "\n";
  if (!command.output.empty()) write_atomically(command.output, json, {.overwrite = command.replace});
  std::cout << (global.json ? json : text_of(report));
  if (!ended_by) return;
  std::cout.flush();
  std::rethrow_exception(ended_by);
}

}  // namespace

void add_bench_kernel(Command& bench, const GlobalOptions& global) {
  Command& kernel = bench.add_command(
      "kernel", "Decode kernels on a GPU: FFD beside LibTorch's attention, with the least time that their bytes take");
  auto options = std::make_shared<KernelBenchCommand>();
  KernelBenchOptions& own = options->bench;
  own.plan.batches = {1, 8};
  own.plan.keeps = {0.02, 0.06, 0.27, 1};
  own.plan.experiments = kKernelExperiments;
  kernel.option("--lengths", options->lengths, "Context lengths: 4K,16K, or 4K..256K, which doubles")
      .takes(text_that_is("a list such as 4K,16K or 4K..256K"))
      .shows_default();
  kernel.option("--batch", own.plan.batches, "Sequences decoded at once")
      .separated()
      .takes(whole_number(1, 1024))
      .shows_default();
  kernel.option("--delta", options->deltas, "Deltas, at the keep ratio that each layer has there")
      .takes(text_that_is("a list such as 5,7"))
      .shows_default();
  kernel.option("--keep", own.plan.keeps, "Shares of the tokens to which delta is calibrated, layer by layer")
      .separated()
      .takes(share_of_one())
      .shows_default("2%,6%,27%,100%");
  kernel.option("--dump", own.dump, "Dump whose layers are the inputs; default: generated ones")
      .takes(file_name())
      .type("DUMP");
  kernel.option("--samples", options->samples, "Samples of the dump (default: the longest)")
      .takes(text_that_is("a list such as a,b"));
  kernel.option("--layers", options->layers, "Layers of the dump: 0-31, or 0,5,8-11, or 8- (default: all)")
      .takes(text_that_is("a list such as 0-31 or 0,5"));
  kernel.option("--heads", own.shape.num_query_heads, "Query heads of generated inputs")
      .takes(whole_number(1, 1024))
      .shows_default();
  kernel.option("--kv-heads", own.shape.num_kv_heads, "KV heads of generated inputs")
      .takes(whole_number(1, 1024))
      .shows_default();
  kernel.option("--head-dim", own.shape.head_dim, "Channels of generated queries, keys and values")
      .takes(whole_number(1, 1024))
      .shows_default();
  kernel.option("--dtype,--element-type", options->element_type, "Type of generated inputs")
      .takes(one_of({"float16", "bfloat16"}))
      .shows_default();
  kernel.option("--sub-block", options->sub_block, "Tokens that FFD keeps or drops together")
      .takes(one_of({"16", "32", "64", "128"}))
      .shows_default();
  kernel.option("--only", own.plan.experiments, "Experiments (default: all)")
      .separated()
      .takes(one_of(kKernelExperiments));
  kernel.option("--repeats", options->timing.repeats, "Timed replays of each graph; the median is reported")
      .takes(whole_number(1, 1000))
      .shows_default();
  kernel.option("-o,--output", options->output, "File for the record of the run, JSON").takes(file_name()).type("FILE");
  kernel.flag("--force", options->replace, "Replace the file if it is there");
  kernel.on_run([options, &global] { run_bench_kernel(*options, global); });
}

}  // namespace attest
