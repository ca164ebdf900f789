// What commands that take one device, or measure one GPU, share.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "dumps/base/error.h"
#include "experiments/cli/options/global_options.h"

namespace attest {

/// The device of --device. Throws UsageError for several GPUs. `command`: "tasks".
Device one_device(const GlobalOptions& global, const std::string& command);

/// The GPU of --device. Throws UsageError for several and for the CPU, DeviceError where there is none. `command`:
/// "bench kernel".
Device one_gpu(const GlobalOptions& global, const std::string& command);

/// Throws UsageError: a measurement would be made twice.
template <class Value>
void refuse_twice(const char* option, std::vector<Value> values) {
  std::ranges::sort(values);
  if (const auto twice = std::ranges::adjacent_find(values); twice != values.end())
    throw UsageError(fmt::format("{}: {} is there twice", option, *twice));
}

}  // namespace attest
