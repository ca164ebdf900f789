// Adds the global options to the command line and resolves their defaults.
#include "experiments/cli/options/global_options.h"

#include <unistd.h>

#include "experiments/cli/parse/checks.h"
#include "experiments/cli/process/available_processors.h"
#include "experiments/cli/process/rank_setup.h"
#include "experiments/cli/process/version.h"

namespace attest {
namespace {

constexpr int kMaxThreads = 1024;
constexpr std::uint64_t kMaxConfigBytes = 1'000'000;

}  // namespace

Device GlobalOptions::resolved_device(const Launch* ranks) const {
  const DeviceMemoryLimit memory = parse_device_memory(device_memory);
  if (ranks != nullptr) return rank_device(device, memory, *ranks, device == "cpu" ? VisibleGpus() : visible_gpus());
  Device resolved = resolve_device(device);
  resolved.memory = memory;
  return resolved;
}

int GlobalOptions::thread_count(const Launch* ranks) const {
  if (threads > 0) return threads;
  if (ranks == nullptr) return available_processors();
  return rank_threads(*ranks, available_processors(), static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

void add_global_options(Command& program, GlobalOptions& options) {
  program.config_file("--config", "Options from a TOML file, a [section] per command")
      .takes(readable_file(kMaxConfigBytes))
      .type("FILE");
  program.version_flag("--version", version_report, "Versions of the program, LibTorch, CUDA, HDF5, and the GPU");
  program.option("--device", options.device, "auto, cpu, cuda, cuda:<i>, cuda:<i>,<j>, or cuda:all")
      .shows_default()
      .type("DEVICE");
  program
      .option(
          "--device-memory", options.device_memory,
          "How much of a GPU's memory may be used: a share, or a size such as 12GiB. Keys and values of four layers "
          "lie there if they take at most a quarter of it; longer layers are cut by KV heads")
      .shows_default()
      .type("SIZE");
  program
      .option("--threads", options.threads,
              "CPU threads; 0: one per processor that may be used, shared by the ranks of a machine")
      .takes(whole_number(0, kMaxThreads))
      .shows_default()
      .type("N");
  program.option("--seed", options.seed, "Seed of whatever is random").takes(seed_number()).shows_default().type("N");
  program.flag("--quiet", options.quiet, "No progress and no notices on stderr");
  program.flag("--json", options.json, "Machine output: one JSON document on stdout");
  program.before_run([&options] {
    parse_device_memory(options.device_memory);
    check_device_text(options.device);
  });
}

}  // namespace attest
