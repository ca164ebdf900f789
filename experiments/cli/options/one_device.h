// What commands that take one device, or measure one GPU, share.
#pragma once

#include <string>

#include "experiments/cli/options/global_options.h"

namespace attest {

/// The device of --device. Throws UsageError for several GPUs. `command`: "tasks".
Device one_device(const GlobalOptions& global, const std::string& command);

/// The GPU of --device. Throws UsageError for several and for the CPU, DeviceError where there is none. `command`:
/// "bench kernel".
Device one_gpu(const GlobalOptions& global, const std::string& command);

}  // namespace attest
