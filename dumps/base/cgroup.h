// Limits of the control group (cgroup, version 2) of this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace attest {

/// Where the system lists the groups of this process, and where their files are.
struct CgroupPlace {
  std::filesystem::path list = "/proc/self/cgroup", root = "/sys/fs/cgroup";
};

/// The least of the numbers that `limit_in` reads in the files `name` of the group and of those above it. 0: it found
/// none, and gave 0 each time.
double cgroup_limit(const std::string& name, double (*limit_in)(const std::filesystem::path& file),
                    const CgroupPlace& place = {});

/// Bytes of memory that this process may use: those of the machine, or the limit of its group if that is less.
std::uint64_t available_memory(const CgroupPlace& place = {});

}  // namespace attest
