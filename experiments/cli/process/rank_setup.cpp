// Shares of GPUs and processors.
#include "experiments/cli/process/rank_setup.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/process_identity.h"

namespace attest {
namespace {

/// Slurm and MPI may show each rank its own GPU alone, whatever the others have; torchrun shows all to all.
bool shows_all_gpus(const Launch& ranks, std::size_t gpus) {
  return gpus > 1 || ranks.launcher == "torchrun" || ranks.launcher == "RANK and WORLD_SIZE";
}

}  // namespace

Device rank_device(const std::string& typed, const DeviceMemoryLimit& memory, const Launch& ranks,
                   const VisibleGpus& visible) {
  const std::vector<Gpu>& gpus = visible.gpus;
  Device device = resolve_device(typed, visible);
  device.memory = memory;
  if (device.kind == DeviceKind::cpu) return device;
  if (device.gpus.size() > 1 && ranks.local_world > 1)
    throw UsageError(
        fmt::format("--device {}: each of the {} ranks on '{}' would take all of these GPUs; without --device "
                    "each takes one",
                    typed, ranks.local_world, host_name()));
  std::size_t choices = 1;
  if (typed == "auto" || typed == "cuda") {
    std::vector<int> usable;
    for (std::size_t i = 0; i < gpus.size(); ++i)
      if (gpus[i].usable()) usable.push_back(static_cast<int>(i));
    device.gpus = {usable[static_cast<std::size_t>(ranks.local_rank) % usable.size()]};
    choices = usable.size();
  }
  const auto sharing = (static_cast<std::size_t>(ranks.local_world) + choices - 1) / choices;
  if (sharing > 1 && device.gpus.size() == 1 && shows_all_gpus(ranks, gpus.size())) {
    device.memory.share /= static_cast<double>(sharing);
    device.memory.bytes /= sharing;
    device.notice = fmt::format("{} ranks on '{}' share {} GPU{}", ranks.local_world, host_name(), choices,
                                choices == 1 ? "" : "s");
  }
  return device;
}

int rank_threads(const Launch& ranks, int available, int online) {
  const bool binds = ranks.launcher != "torchrun" && ranks.launcher != "RANK and WORLD_SIZE";
  if (binds && available <= online / ranks.local_world) return available;
  return std::max(1, available / ranks.local_world);
}

std::string rank_text(const Launch& ranks) {
  return fmt::format("rank {} of {} ({}), local rank {} of {} on '{}'", ranks.rank, ranks.world, ranks.launcher,
                     ranks.local_rank, ranks.local_world, host_name());
}

}  // namespace attest
