// The device that a study runs on, and the limit of GPU memory that it may use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

struct Gpu {
  std::string name;                           ///< "NVIDIA H200"
  int major = 0, minor = 0;                   ///< compute capability
  bool usable() const { return major >= 8; }  ///< has bfloat16 tensor cores
};

/// The GPUs visible to this process; empty if the build has no CUDA or the machine has no driver.
std::vector<Gpu> visible_gpus();

struct DeviceMemoryLimit {
  double share = 0.8;       ///< of the device's memory
  std::uint64_t bytes = 0;  ///< if not 0, replaces `share`
};

/// Parses a share, "80%", or a size, "12GiB", "500 MB", "1048576". Throws UsageError for any other text.
DeviceMemoryLimit parse_device_memory(std::string_view text);

enum class DeviceKind : std::uint8_t { cpu, cuda };
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;  ///< in visible_gpus()
  DeviceMemoryLimit memory;
  bool automatic = false;  ///< chosen by `auto`, so the study may fall back to the CPU
  std::string notice;      ///< why `auto` does not use a GPU that is present; else empty
};

/// Parses "cpu", "cuda", "cuda:<i>" or "auto" (the first usable GPU, else the CPU). Throws UsageError for any other
/// text, and for a GPU that does not exist or is too old.
Device resolve_device(std::string_view text);

}  // namespace attest
