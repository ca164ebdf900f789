// Copy bandwidth of a CUDA device's memory and of its bus, to compare the study's stages with.
#pragma once

namespace attest {

struct CudaBandwidth {
  double device_copy = 0;  ///< bytes per second within the device's memory; counts bytes read and bytes written
  double from_host = 0;    ///< bytes per second from page-locked memory of the host
};

/// Medians of a few large copies. Throws DeviceError.
CudaBandwidth measure_cuda_bandwidth(int device);

}  // namespace attest
