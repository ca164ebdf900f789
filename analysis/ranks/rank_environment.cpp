// Reads the variables of the launchers.
#include "analysis/ranks/rank_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <span>
#include <string_view>

#include "analysis/ranks/slurm_nodes.h"
#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr const char* kLocalHost = "127.0.0.1";

/// Variables as numbers and texts. An empty variable counts as missing.
class Variables {
 public:
  explicit Variables(const EnvironmentReader& read) : read_(read) {}

  std::optional<std::string> text(const char* name) const {
    std::optional<std::string> value = read_(name);
    return value && !value->empty() ? value : std::nullopt;
  }
  bool has(const char* name) const { return text(name).has_value(); }

  std::optional<int> number(const char* name, int least, int most) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    int number = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
    if (error != std::errc{} || end != value->data() + value->size() || number < least || number > most)
      throw UsageError(
          fmt::format("{} is '{}', expected a whole number from {} to {}", name, excerpt(*value), least, most));
    return number;
  }
  int needed(const char* name, int least, int most, const char* because) const {
    if (const std::optional<int> found = number(name, least, most)) return *found;
    throw UsageError(fmt::format("{} is set, but {} is not", because, name));
  }

 private:
  const EnvironmentReader& read_;
};

/// Below the ports that systems give to outgoing connections.
int port_of(const std::string& job) {
  constexpr std::uint64_t kFirst = 10000, kCount = 20000;
  return static_cast<int>(kFirst + hash_of(std::as_bytes(std::span(job))) % kCount);
}

void check(const RankEnvironment& found, const char* rank, const char* world, const char* local_rank,
           const char* local_world) {
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

RankEnvironment read_torch(const Variables& variables) {
  RankEnvironment found;
  const bool elastic = variables.has("TORCHELASTIC_RUN_ID");
  found.launcher = elastic ? "torchrun" : "RANK and WORLD_SIZE";
  found.rank = variables.needed("RANK", 0, kMostRanks, "WORLD_SIZE");
  found.world = variables.needed("WORLD_SIZE", 1, kMostRanks, "RANK");
  found.local_rank = variables.number("LOCAL_RANK", 0, kMostRanks).value_or(0);
  found.local_world = variables.number("LOCAL_WORLD_SIZE", 1, kMostRanks).value_or(found.local_rank + 1);
  check(found, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  // Not TORCHELASTIC_RESTART_COUNT, which differs between nodes: only that of the node counts where a rank has failed.
  found.job = variables.text("TORCHELASTIC_RUN_ID").value_or("none");
  found.store_is_there = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return found;
}

RankEnvironment read_open_mpi(const Variables& variables) {
  RankEnvironment found;
  found.launcher = "Open MPI";
  const char* const because = "OMPI_COMM_WORLD_RANK";
  found.rank = variables.needed("OMPI_COMM_WORLD_RANK", 0, kMostRanks, because);
  found.world = variables.needed("OMPI_COMM_WORLD_SIZE", 1, kMostRanks, because);
  found.local_rank = variables.needed("OMPI_COMM_WORLD_LOCAL_RANK", 0, kMostRanks, because);
  found.local_world = variables.needed("OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMostRanks, because);
  check(found, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE");
  for (const char* const name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"})
    if (found.job.empty()) found.job = variables.text(name).value_or("");
  return found;
}

/// Of Slurm, from its variables of a step.
int slurm_local_world(const Variables& variables, int local_rank, int world) {
  const int node = variables.number("SLURM_NODEID", 0, kMostRanks).value_or(0);
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

std::string slurm_job(const Variables& variables) {
  return fmt::format("slurm-{}-{}-{}", variables.text("SLURM_JOB_ID").value_or("0"),
                     variables.text("SLURM_STEP_ID").value_or("0"),
                     variables.text("SLURM_RESTART_COUNT").value_or("0"));
}

/// Outside of a step, in the script of a batch job, the variables describe no ranks: the script is one process.
bool in_slurm_step(const Variables& variables) {
  return variables.has("SLURM_STEP_ID") && variables.has("SLURM_PROCID") &&
         (variables.has("SLURM_STEP_NUM_TASKS") || variables.has("SLURM_NTASKS"));
}

RankEnvironment read_slurm(const Variables& variables) {
  RankEnvironment found;
  found.launcher = "Slurm";
  found.rank = variables.needed("SLURM_PROCID", 0, kMostRanks, "SLURM_STEP_ID");
  const char* const world = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  found.world = variables.needed(world, 1, kMostRanks, "SLURM_STEP_ID");
  if (found.world == 1) return found;  // also the step of an interactive shell, where other variables are the job's
  found.local_rank = variables.number("SLURM_LOCALID", 0, kMostRanks).value_or(0);
  found.local_world = slurm_local_world(variables, found.local_rank, found.world);
  check(found, "SLURM_PROCID", world, "SLURM_LOCALID", "the number of tasks on this node");
  found.job = slurm_job(variables);
  return found;
}

RankEnvironment read_pmix(const Variables& variables) {
  if (in_slurm_step(variables)) {
    RankEnvironment found = read_slurm(variables);
    found.launcher = "PMIx under Slurm";
    return found;
  }
  RankEnvironment found;
  found.launcher = "PMIx";
  found.rank = variables.needed("PMIX_RANK", 0, kMostRanks, "PMIX_RANK");
  const std::optional<int> world = variables.number("PMI_SIZE", 1, kMostRanks);
  if (!world)
    throw UsageError(
        "PMIX_RANK is set, but nothing says how many ranks there are: set RANK, WORLD_SIZE and LOCAL_RANK");
  found.world = *world;
  found.local_rank = variables.number("MPI_LOCALRANKID", 0, kMostRanks).value_or(0);
  found.local_world = variables.number("MPI_LOCALNRANKS", 1, kMostRanks).value_or(found.local_rank + 1);
  check(found, "PMIX_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  found.job = variables.text("PMIX_NAMESPACE").value_or("");
  return found;
}

/// Where the store is: MASTER_ADDR and MASTER_PORT if they are set, else the first node of a Slurm step, or this
/// machine if all ranks are on it.
void find_store(RankEnvironment& found, const Variables& variables) {
  const std::optional<std::string> address = variables.text("MASTER_ADDR");
  const std::optional<int> port = variables.number("MASTER_PORT", 1, 65535);
  found.store_port = port.value_or(found.job.empty() ? 0 : port_of(found.job));
  if (address) {
    found.store_host = *address;
  } else if (found.local_world == found.world) {
    found.store_host = kLocalHost;
  } else if (found.launcher.ends_with("Slurm")) {
    for (const char* const name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
      if (const std::optional<std::string> list = variables.text(name); list && found.store_host.empty()) {
        found.store_host = first_slurm_node(*list);
        if (found.store_host.empty())
          throw UsageError(fmt::format("{} is '{}', expected a list such as n[01-03,7],m2", name, excerpt(*list)));
      }
  }
  if (found.store_host.empty() || found.store_port == 0)
    throw UsageError(
        fmt::format("{} says that this is rank {} of {}, but not where rank 0 is: set MASTER_ADDR to its "
                    "host and MASTER_PORT to a free port of it, the same for all ranks",
                    found.launcher, found.rank, found.world));
  // Two jobs on one machine may have variables that are alike in all but the port.
  found.job += fmt::format("/{}", found.store_port);
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<RankEnvironment> read_rank_environment(const EnvironmentReader& read) {
  const Variables variables(read);
  RankEnvironment found;
  if (variables.has("RANK") || variables.has("WORLD_SIZE"))
    found = read_torch(variables);
  else if (variables.has("OMPI_COMM_WORLD_RANK"))
    found = read_open_mpi(variables);
  else if (variables.has("PMIX_RANK"))
    found = read_pmix(variables);
  else if (in_slurm_step(variables))
    found = read_slurm(variables);
  if (found.world == 1) return std::nullopt;
  find_store(found, variables);
  return found;
}

}  // namespace attest
