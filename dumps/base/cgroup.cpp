// Reads files of cgroups.
#include "dumps/base/cgroup.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

namespace attest {
namespace {

namespace fs = std::filesystem;

/// "4294967296"; "max" without a limit.
double bytes_in(const fs::path& memory_max) {
  double bytes = 0;
  std::ifstream(memory_max) >> bytes;
  return std::max(0.0, bytes);
}

}  // namespace

double cgroup_limit(const std::string& name, double (*limit_in)(const fs::path&), const CgroupPlace& place) {
  constexpr std::string_view kVersion2 = "0::/";
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::ifstream lines(place.list);
  fs::path group;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(kVersion2)) group = line.substr(kVersion2.size());
  double least = kNone;
  for (;; group = group.parent_path()) {
    if (const double limit = limit_in(place.root / group / name); limit > 0) least = std::min(least, limit);
    if (group == group.parent_path()) return least == kNone ? 0 : least;
  }
}

std::uint64_t available_memory(const CgroupPlace& place) {
  const std::uint64_t machine =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
  const double limit = cgroup_limit("memory.max", bytes_in, place);
  return limit > 0 && limit < static_cast<double>(machine) ? static_cast<std::uint64_t>(limit) : machine;
}

}  // namespace attest
