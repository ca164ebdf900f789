// Allowances by what a file has on disk, and getrlimit.
#include "dumps/hdf5/child_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace attest {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

}  // namespace

ChildLimits metadata_limits(std::uint64_t stored_bytes) {
  const std::uint64_t memory = std::min<std::uint64_t>(1024 * kMiB, 256 * kMiB + 64 * stored_bytes);
  const std::uint64_t plausible = std::min<std::uint64_t>(256 * kMiB, stored_bytes);  // of metadata alone
  return {memory, 2 + static_cast<unsigned>(plausible / (2 * kMiB) + stored_bytes / (16 * kMiB))};
}

ChildLimits value_limits(std::uint64_t stored_bytes, std::size_t bytes) {
  const ChildLimits opening = metadata_limits(stored_bytes);
  return {opening.memory_bytes + 4 * bytes, opening.processor_seconds + static_cast<unsigned>(bytes / (10 * kMiB))};
}

unsigned wall_seconds(const ChildLimits& limits) { return 60 + 20 * limits.processor_seconds; }

std::size_t address_space_in_use() {
  std::size_t pages = 0;
  if (std::FILE* statm = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(statm, "%zu", &pages) != 1) pages = 0;
    std::fclose(statm);
  }
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

bool set_limit(int resource, std::uint64_t value) {
  const auto of = static_cast<decltype(RLIMIT_AS)>(resource);
  rlimit limit{};
  getrlimit(of, &limit);
  limit.rlim_cur = std::min<rlim_t>(value, limit.rlim_max);
  setrlimit(of, &limit);
  return value <= limit.rlim_max;
}

}  // namespace attest
