// Which processor a study runs on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

struct Gpu {
  std::string name;  ///< "NVIDIA H200"
  int major = 0, minor = 0;  ///< compute capability
};

/// Every GPU that this process may use; empty also when the build has no CUDA or the machine no driver.
std::vector<Gpu> visible_gpus();

enum class DeviceKind : std::uint8_t { cpu, cuda };
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;  ///< of visible_gpus()
};

/// From "cpu", "cuda", "cuda:<i>" or "auto". Throws UsageError for any other text, and for a GPU that is not there.
Device resolve_device(std::string_view text);

}  // namespace attest
