// The outputs of every setting of a sweep on the device, whole chunks at a time: the counterpart of setting_outputs.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention/level_sums_cuda.h"
#include "kernels/quantize/kivi_groups.h"

namespace attest {

/// The values that a selector's computer reads: the first num_approximate[r] tokens from KIVI's groups, the rest exact.
struct DeviceValues {
  const float2* groups = nullptr;  ///< null: all exact
  KiviQuantizer quantizer;
  const int* num_approximate = nullptr;  ///< [rows]
};

/// Output and log-sum-exp of every setting. Of the view, scores, levels and order are read.
void cuda_setting_outputs(const DeviceRows& rows, const DeviceKeyValues& kv, const SweepView& view,
                          const DeviceValues& values, const DeviceOutputs& out, DeviceArena& arena,
                          cudaStream_t stream);

/// The one output of exact attention, whose maxima and sums of weights are known.
void cuda_exact_outputs(const DeviceRows& rows, const DeviceKeyValues& kv, const DeviceMatrix<const float>& scores,
                        const LevelSums& sums, const DeviceOutputs& out, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
