// Reads the affinity mask, and cpu.max of cgroups.
#include "experiments/cli/process/available_processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>

namespace attest {
namespace {

/// Processors of the affinity mask. The kernel refuses a mask that is smaller than its own, with 1024 processors and
/// more.
int scheduled_processors() {
  constexpr int kMax = 1 << 20;
  for (int most = 1024; most <= kMax; most *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most), [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    if (set != nullptr && sched_getaffinity(0, bytes, set.get()) == 0) return CPU_COUNT_S(bytes, set.get());
    if (errno != EINVAL) break;
  }
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

/// "200000 100000": microseconds of processors in each period; "max 100000" without a limit.
double processors_in(const std::filesystem::path& cpu_max) {
  double quota = 0, period = 0;
  std::ifstream(cpu_max) >> quota >> period;
  return quota > 0 && period > 0 ? std::min(std::ceil(quota / period), 1e6) : 0;
}

}  // namespace

int cpu_quota(const CgroupPlace& place) { return static_cast<int>(cgroup_limit("cpu.max", processors_in, place)); }

int available_processors() {
  const int quota = cpu_quota(), scheduled = scheduled_processors();
  return std::max(1, quota > 0 ? std::min(quota, scheduled) : scheduled);
}

}  // namespace attest
