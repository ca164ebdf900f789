// Reads the variables of the launchers.
#include "analysis/run/launcher.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "dumps/base/text_parts.h"

namespace attest {
namespace {

constexpr int kMaxRanks = 1 << 20;

/// Variables as numbers and texts. An empty variable counts as missing.
class Variables {
 public:
  explicit Variables(const EnvironmentReader& read) : read_(read) {}

  std::optional<std::string> text(const char* name) const {
    std::optional<std::string> value = read_(name);
    return value && !value->empty() ? value : std::nullopt;
  }
  bool has(const char* name) const { return text(name).has_value(); }

  std::optional<int> number(const char* name, int minimum, int maximum) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    const std::optional<int> number = parse_number<int>(*value);
    if (!number || *number < minimum || *number > maximum)
      throw UsageError(
          fmt::format("{} is '{}', expected a whole number from {} to {}", name, excerpt(*value), minimum, maximum));
    return number;
  }
  int needed(const char* name, int minimum, int maximum, const char* because) const {
    if (const std::optional<int> found = number(name, minimum, maximum)) return *found;
    throw UsageError(fmt::format("{} is set, but {} is not", because, name));
  }

 private:
  const EnvironmentReader& read_;
};

void check(const Launch& found, const char* rank, const char* world, const char* local_rank, const char* local_world) {
  const auto below = [](int number, const char* name, int limit, const char* limit_name) {
    if (number >= limit)
      throw UsageError(
          fmt::format("{} is {} and {} is {}, expected a smaller {}", name, number, limit_name, limit, name));
  };
  below(found.rank, rank, found.world, world);
  below(found.local_rank, local_rank, found.local_world, local_world);
  if (found.local_world > found.world)
    throw UsageError(fmt::format("{} is {} and {} is {}, expected no more ranks on a machine than in all", local_world,
                                 found.local_world, world, found.world));
}

Launch read_torch(const Variables& variables) {
  Launch found;
  const bool elastic = variables.has("TORCHELASTIC_RUN_ID");
  found.launcher = elastic ? "torchrun" : "RANK and WORLD_SIZE";
  found.rank = variables.needed("RANK", 0, kMaxRanks, "WORLD_SIZE");
  found.world = variables.needed("WORLD_SIZE", 1, kMaxRanks, "RANK");
  found.local_rank = variables.number("LOCAL_RANK", 0, kMaxRanks).value_or(0);
  found.local_world = variables.number("LOCAL_WORLD_SIZE", 1, kMaxRanks).value_or(found.local_rank + 1);
  check(found, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  return found;
}

Launch read_open_mpi(const Variables& variables) {
  Launch found;
  found.launcher = "Open MPI";
  const char* const because = "OMPI_COMM_WORLD_RANK";
  found.rank = variables.needed("OMPI_COMM_WORLD_RANK", 0, kMaxRanks, because);
  found.world = variables.needed("OMPI_COMM_WORLD_SIZE", 1, kMaxRanks, because);
  found.local_rank = variables.needed("OMPI_COMM_WORLD_LOCAL_RANK", 0, kMaxRanks, because);
  found.local_world = variables.needed("OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMaxRanks, because);
  check(found, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE");
  return found;
}

/// The number of tasks on a node, counted from 0, of a list such as "8(x2),4". Empty if it is malformed or too short.
std::optional<int> slurm_tasks_on_node(std::string_view list, int node) {
  for (;;) {
    const std::optional<int> tasks = take_index(list);
    if (!tasks) return std::nullopt;
    int nodes = 1;
    if (take(list, "(x")) {
      const std::optional<int> repeated = take_index(list);
      if (!repeated || !take(list, ")")) return std::nullopt;
      nodes = *repeated;
    }
    if (node < nodes) return tasks;
    node -= nodes;
    if (!take(list, ",")) return std::nullopt;
  }
}

/// Of Slurm, from its variables of a step.
int slurm_local_world(const Variables& variables, int local_rank, int world) {
  const int node = variables.number("SLURM_NODEID", 0, kMaxRanks).value_or(0);
  for (const char* const name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
    if (const std::optional<std::string> list = variables.text(name)) {
      const std::optional<int> tasks = slurm_tasks_on_node(*list, node);
      if (!tasks)
        throw UsageError(fmt::format("{} is '{}', expected a list such as 8(x2),4 with an entry for node {}", name,
                                     excerpt(*list), node));
      return *tasks;
    }
  return std::min(world, local_rank + 1);
}

/// Outside of a step, in the script of a batch job, the variables describe no ranks: the script is one process.
bool in_slurm_step(const Variables& variables) {
  return variables.has("SLURM_STEP_ID") && variables.has("SLURM_PROCID") &&
         (variables.has("SLURM_STEP_NUM_TASKS") || variables.has("SLURM_NTASKS"));
}

Launch read_slurm(const Variables& variables) {
  Launch found;
  found.launcher = "Slurm";
  found.rank = variables.needed("SLURM_PROCID", 0, kMaxRanks, "SLURM_STEP_ID");
  const char* const world = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  found.world = variables.needed(world, 1, kMaxRanks, "SLURM_STEP_ID");
  if (found.world == 1) return found;  // also the step of an interactive shell, where other variables are the job's
  found.local_rank = variables.number("SLURM_LOCALID", 0, kMaxRanks).value_or(0);
  found.local_world = slurm_local_world(variables, found.local_rank, found.world);
  check(found, "SLURM_PROCID", world, "SLURM_LOCALID", "the number of tasks on this node");
  return found;
}

Launch read_pmix(const Variables& variables) {
  if (in_slurm_step(variables)) {
    Launch found = read_slurm(variables);
    found.launcher = "PMIx under Slurm";
    return found;
  }
  Launch found;
  found.launcher = "PMIx";
  found.rank = variables.needed("PMIX_RANK", 0, kMaxRanks, "PMIX_RANK");
  const std::optional<int> world = variables.number("PMI_SIZE", 1, kMaxRanks);
  if (!world)
    throw UsageError(
        "PMIX_RANK is set, but nothing says how many ranks there are: set RANK, WORLD_SIZE and LOCAL_RANK");
  found.world = *world;
  found.local_rank = variables.number("MPI_LOCALRANKID", 0, kMaxRanks).value_or(0);
  found.local_world = variables.number("MPI_LOCALNRANKS", 1, kMaxRanks).value_or(found.local_rank + 1);
  check(found, "PMIX_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  return found;
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<Launch> read_launch(const EnvironmentReader& read) {
  const Variables variables(read);
  Launch found;
  if (variables.has("RANK") || variables.has("WORLD_SIZE"))
    found = read_torch(variables);
  else if (variables.has("OMPI_COMM_WORLD_RANK"))
    found = read_open_mpi(variables);
  else if (variables.has("PMIX_RANK"))
    found = read_pmix(variables);
  else if (in_slurm_step(variables))
    found = read_slurm(variables);
  if (found.world == 1) return std::nullopt;
  return found;
}

}  // namespace attest
