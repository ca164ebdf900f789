// The devices that a study runs on, and the limit of GPU memory that it may use on each.
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

/// The GPUs that a process sees.
struct VisibleGpus {
  std::vector<Gpu> gpus{};
  /// Why there are not more: "the CUDA runtime says 'unknown error'". Empty if the runtime has named all.
  std::string fault{};
};

/// Those of this process; without a GPU or a fault if the build has no CUDA or the machine has no driver.
VisibleGpus visible_gpus();

struct DeviceMemoryLimit {
  double share = 0.8;       ///< of the device's memory
  std::uint64_t bytes = 0;  ///< if not 0, replaces `share`
};

/// Parses a share, "80%", or a size, "12GiB", "500 MB", "1048576". Throws UsageError for any other text.
DeviceMemoryLimit parse_device_memory(std::string_view text);

enum class DeviceKind : std::uint8_t { cpu, cuda };
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::vector<int> gpus{};  ///< indices in VisibleGpus::gpus, each once; none of a CPU
  DeviceMemoryLimit memory;
  bool automatic = false;  ///< chosen by `auto`, so the study may fall back to the CPU
  std::string notice;      ///< why a GPU that is present is not used; else empty

  int first_gpu() const { return gpus.at(0); }
  std::size_t count() const { return kind == DeviceKind::cpu ? 1 : gpus.size(); }
};

/// Throws UsageError for a text that resolve_device() parses on no machine.
void check_device_text(std::string_view text);

/// Parses "cpu", "cuda" (the first GPU), "cuda:<i>", "cuda:<i>,<j>", "cuda:all" (all usable GPUs) or "auto" (the first
/// usable GPU, else the CPU). Throws UsageError for any other text, for a GPU that is named twice, does not exist or is
/// too old.
Device resolve_device(std::string_view text, const VisibleGpus& visible);
Device resolve_device(std::string_view text);

}  // namespace attest
