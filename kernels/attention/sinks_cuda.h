// Learned sinks on the device: the counterpart of sinks.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention/level_sums_cuda.h"
#include "kernels/device/device_rows.h"

namespace attest {

/// Outputs and log-sum-exps over keys become those with the rows' sinks, if they have any.
void cuda_add_sinks(const DeviceRows& rows, const DeviceOutputs& outputs, cudaStream_t stream);

}  // namespace attest
