// Sets and unsets CUDA_DEVICE_MAX_CONNECTIONS.
#include "experiments/cli/process/gpu_connections.h"

#include <cstdlib>

namespace attest {
namespace {

constexpr char kName[] = "CUDA_DEVICE_MAX_CONNECTIONS";
bool limited = false;

}  // namespace

void limit_gpu_connections() {
  if (std::getenv(kName) != nullptr) return;
  limited = ::setenv(kName, "4", 1) == 0;
}

void restore_gpu_connections() {
  if (limited) ::unsetenv(kName);
  limited = false;
}

}  // namespace attest
