// The device of commands that take one.
#include "experiments/cli/options/one_device.h"

#include <fmt/core.h>

#include "dumps/base/error.h"

namespace attest {

Device one_device(const GlobalOptions& global, const std::string& command) {
  Device device = global.resolved_device();
  if (device.gpus.size() > 1)
    throw UsageError(
        fmt::format("--device {}: 'attest {}' takes one GPU, found {}", global.device, command, device.gpus.size()));
  return device;
}

Device one_gpu(const GlobalOptions& global, const std::string& command) {
  Device device = one_device(global, command);
  if (device.kind == DeviceKind::cuda) return device;
  if (!device.automatic)
    throw UsageError(fmt::format("--device cpu: 'attest {}' measures a GPU; expected cuda or auto", command));
  throw DeviceError(fmt::format(
      "{}: expected a GPU with CUDA{}", command,
      ATTEST_HAS_CUDA ? " and compute capability 8.0 or later, found none" : ", found a build without CUDA"));
}

}  // namespace attest
