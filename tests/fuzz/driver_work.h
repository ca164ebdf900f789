// What the processes do that the driver starts and watches: make inputs, read them.
#pragma once

#include <chrono>

#include "tests/fuzz/driver_pages.h"

namespace attest::fuzz {

using Clock = std::chrono::steady_clock;

/// Exit codes of the processes.
enum WorkEnd : int { kUsedUp = 0, kBatchDone = 2, kFailed = 3, kLooping = 4 };

/// Makes the files that HDF5 makes until they are used up, or a batch of them.
int make_files(const TargetInfo& target, FuzzTarget& maker, const DriverOptions& options, Shared& shared);

/// Reads until the inputs or the time are used up, or until a failure, which it describes. HDF5 files are read in this
/// process unless options.guarded; it ends with kLooping where one takes too long (loop_limit.h).
int read_inputs(const TargetInfo& target, FuzzTarget& reader, const DriverOptions& options, Shared& shared,
                Clock::time_point end);

/// Reads the input of a process that HDF5 ended once more, with children as in the program.
int read_again(const TargetInfo& target, FuzzTarget& reader, const DriverOptions& options, Shared& shared);

}  // namespace attest::fuzz
