// Which processor a study runs on, and how much of a GPU's memory it may take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

struct Gpu {
  std::string name;                           ///< "NVIDIA H200"
  int major = 0, minor = 0;                   ///< compute capability
  bool usable() const { return major >= 8; }  ///< bfloat16 tensor cores
};

/// Every GPU that this process may use; empty also when the build has no CUDA or the machine no driver.
std::vector<Gpu> visible_gpus();

struct DeviceMemoryLimit {
  double share = 0.8;       ///< of the device's memory
  std::uint64_t bytes = 0;  ///< if not 0: these, whatever the share
};

/// From "80%" or a number of bytes: "12GiB", "500 MB", "1048576". Throws UsageError for any other text.
DeviceMemoryLimit parse_device_memory(std::string_view text);

enum class DeviceKind : std::uint8_t { cpu, cuda };
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;  ///< of visible_gpus()
  DeviceMemoryLimit memory;
  bool automatic = false;  ///< chosen by `auto`: the CPU will do as well
  std::string notice;      ///< why `auto` left a GPU that is there alone; else empty
};

/// From "cpu", "cuda", "cuda:<i>" or "auto", the first GPU that can be used or else the CPU. Throws UsageError for any
/// other text, and for a GPU that is not there or too old.
Device resolve_device(std::string_view text);

}  // namespace attest
