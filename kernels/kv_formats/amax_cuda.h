// Largest magnitude of keys or values on the device: the counterpart of amax.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_rows.h"

namespace attest {

/// out [heads]: max |x| over all tokens of each head; 0 of none.
void cuda_max_magnitudes(const DeviceTokens& tokens, int heads, float* out, cudaStream_t stream);

}  // namespace attest
