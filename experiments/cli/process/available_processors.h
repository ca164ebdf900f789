// How many processors this process may use: fewer than the machine has under taskset, a batch system or a container.
#pragma once

#include "dumps/base/cgroup.h"

namespace attest {

/// Those that the scheduler may give to this process, at most as many as the CPU quota of its cgroup; at least 1.
int available_processors();

/// The CPU quota of a process in processors, rounded up: the least of its cgroup and of those above. 0 if there is
/// none.
int cpu_quota(const CgroupPlace& place = {});

}  // namespace attest
