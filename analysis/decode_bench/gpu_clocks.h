// Clocks and driver version of a GPU, from NVIDIA's management library where the machine has it.
#pragma once

#include <memory>
#include <string>

#include "analysis/decode_bench/kernel_record.h"

namespace attest {

struct GpuClocks {
  double sm_mhz = kNotMeasured, memory_mhz = kNotMeasured;
};

class GpuMonitor {
 public:
  /// `pci_bus_id`: as cudaDeviceGetPCIBusId() gives it. Without the library there are no clocks.
  explicit GpuMonitor(const std::string& pci_bus_id);
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  GpuClocks clocks() const;    ///< now
  std::string driver() const;  ///< "580.65.06"; empty: not known

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace attest
