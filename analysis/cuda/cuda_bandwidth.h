// What a CUDA device's memory and bus are capable of: the yardstick for the study's stages.
#pragma once

namespace attest {

struct CudaBandwidth {
  double device_copy = 0;  ///< bytes per second within the device's memory, read and written bytes counted
  double from_host = 0;    ///< bytes per second from page-locked memory of the host
};

/// Medians of a few large copies. Throws DeviceError.
CudaBandwidth measure_cuda_bandwidth(int device);

}  // namespace attest
