// Opens libnvidia-ml.so.1, which comes with the driver. Declared here, because the header is in few toolkits.
#include "analysis/decode_bench/gpu_clocks.h"

#include <dlfcn.h>

#include <array>
#include <fstream>

namespace attest {

struct GpuMonitor::Library {
  using Device = struct NvmlDevice*;
  enum Clock : unsigned { kSmClock = 1, kMemoryClock = 2 };  // nvmlClockType_t
  static constexpr int kSuccess = 0;                         // NVML_SUCCESS

  void* handle = nullptr;
  Device device = nullptr;
  int (*shutdown)() = nullptr;
  int (*clock_info)(Device, unsigned, unsigned*) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;

  template <class Function>
  bool find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    return function != nullptr;
  }

  explicit Library(const std::string& pci_bus_id) : handle(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) return;
    int (*init)() = nullptr;
    int (*by_bus_id)(const char*, Device*) = nullptr;
    int (*end)() = nullptr;
    if (!find("nvmlInit_v2", init) || !find("nvmlShutdown", end) || init() != kSuccess) return;
    shutdown = end;
    find("nvmlSystemGetDriverVersion", driver_version);
    find("nvmlDeviceGetClockInfo", clock_info);
    if (!find("nvmlDeviceGetHandleByPciBusId_v2", by_bus_id) || by_bus_id(pci_bus_id.c_str(), &device) != kSuccess)
      device = nullptr;
  }
  ~Library() {
    if (shutdown != nullptr) shutdown();
    if (handle != nullptr) dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  double clock(Clock which) const {
    unsigned mhz = 0;
    const bool known = device != nullptr && clock_info != nullptr && clock_info(device, which, &mhz) == kSuccess;
    return known ? mhz : kNotMeasured;
  }
};

GpuMonitor::GpuMonitor(const std::string& pci_bus_id) : library_(std::make_unique<Library>(pci_bus_id)) {}
GpuMonitor::~GpuMonitor() = default;

GpuClocks GpuMonitor::clocks() const {
  return {.sm_mhz = library_->clock(Library::kSmClock), .memory_mhz = library_->clock(Library::kMemoryClock)};
}

std::string GpuMonitor::driver() const {
  std::array<char, 96> text{};  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE is 80
  if (library_->driver_version != nullptr && library_->shutdown != nullptr &&
      library_->driver_version(text.data(), static_cast<unsigned>(text.size())) == Library::kSuccess)
    return text.data();
  std::string version;
  std::ifstream("/sys/module/nvidia/version") >> version;
  return version;
}

}  // namespace attest
