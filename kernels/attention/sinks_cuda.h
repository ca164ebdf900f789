// Learned sinks on the device: the counterpart of sinks.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention/level_sums_cuda.h"
#include "kernels/device/device_rows.h"

namespace attest {

/// Adds the rows' sinks, if there are any, to outputs and log-sum-exps over keys (formulas: sinks.h).
void cuda_add_sinks(const DeviceRows& rows, const DeviceOutputs& outputs, cudaStream_t stream);

}  // namespace attest
