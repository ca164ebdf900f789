// Hands the options of a study over to attest.cluster.
#include "experiments/commands/run_elsewhere.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "experiments/cli/process/python_module.h"
#include "experiments/cli/process/version.h"

namespace attest {
namespace {

/// Options that are not passed on to the chunks of a study: where its results go, how it begins, and who computes it.
constexpr std::array<std::string_view, 10> kOfTheWhole = {"--output", "--resume", "--force", "--dask", "--mpi",
                                                          "--slurm",  "--units",  "--chunk", "--take", "--time-limit"};

std::vector<std::string> words_of_chunks(const Command& command, const GlobalOptions& global) {
  std::vector<std::string> words;
  for (const auto& option : command.options()) {
    if (!option->is_given() || std::ranges::find(kOfTheWhole, option->name()) != kOfTheWhole.end()) continue;
    if (option->is_flag()) {
      words.push_back(option->name());
      continue;
    }
    for (const std::string& value : option->values())
      words.push_back(option->name().starts_with("--") ? fmt::format("{}={}", option->name(), value) : value);
  }
  const GlobalOptions usual;
  if (global.device != usual.device) words.push_back("--device=" + global.device);
  if (global.device_memory != usual.device_memory) words.push_back("--device-memory=" + global.device_memory);
  if (global.threads != usual.threads) words.push_back(fmt::format("--threads={}", global.threads));
  if (global.seed != usual.seed) words.push_back(fmt::format("--seed={}", global.seed));
  return words;
}

}  // namespace

void add_elsewhere_options(Command& command, Elsewhere& elsewhere) {
  command
      .option("--dask", elsewhere.dask,
              "Compute on the workers of a Dask cluster: the scheduler's address, its file, or local:N")
      .takes(text_that_is("an address, a file or local:N"))
      .type("WHERE");
  command.flag("--mpi", elsewhere.mpi, "Under mpirun: the first process leads, the others compute (mpi4py)");
  command
      .option("--slurm", elsewhere.slurm,
              "Compute in jobs of Slurm (submitit): sbatch's options and how many jobs, partition=gpu,gpus_per_node=1,"
              "jobs=8")
      .takes(text_that_is("a list such as partition=gpu,jobs=8"))
      .type("LIST");
}

bool is_elsewhere(const Elsewhere& elsewhere) {
  const int ways = int{!elsewhere.dask.empty()} + int{elsewhere.mpi} + int{!elsewhere.slurm.empty()};
  if (ways > 1) throw UsageError("--dask, --mpi and --slurm exclude each other");
  return ways == 1;
}

void run_elsewhere(const Elsewhere& elsewhere, const Command& command, const std::string& output,
                   const GlobalOptions& global) {
  if (output.empty()) throw UsageError("'attest run' needs --output, results file to write; see 'attest run --help'");
  for (const char* option : {"--units", "--chunk", "--take", "--time-limit"})
    if (command.gives(option)) throw UsageError(fmt::format("{} is for a study that this process computes", option));
  Json how = Json::array();
  for (const char* flag : {"--resume", "--force"})
    if (command.gives(flag)) how.push_back(flag);
  const std::string executor = elsewhere.mpi ? "mpi" : elsewhere.dask.empty() ? "slurm" : "dask";
  const Json request{{"executor", executor},
                     {"place", elsewhere.dask.empty() ? elsewhere.slurm : elsewhere.dask},
                     {"words", words_of_chunks(command, global)},
                     {"output", output},
                     {"how", how},
                     {"quiet", global.quiet},
                     {"json", global.json}};
  exec_module(python_interpreter(), "attest.cluster", {request_text(request)});
}

}  // namespace attest
