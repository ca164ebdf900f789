// Outputs of all settings of a sweep on the device, one chunk of rows at a time: the counterpart of setting_outputs.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention/level_sums_cuda.h"
#include "kernels/quantize/kivi_groups.h"

namespace attest {

/// Values that a selector uses: row r reads its first num_approximate[r] tokens from KIVI groups, and the rest exactly
/// or as they were made.
struct DeviceValues {
  const float2* groups = nullptr;  ///< null: all values are exact
  KiviQuantizer quantizer;
  const int* num_approximate = nullptr;  ///< [rows]
  MadeTokens made;                       ///< read in place of exact values
};

/// Output and log-sum-exp of every setting. Input: scores, levels and order of `view`; leave its other arrays null.
void cuda_setting_outputs(const DeviceRows& rows, const DeviceKeyValues& kv, const SweepView& view,
                          const DeviceValues& values, const DeviceOutputs& out, DeviceArena& arena,
                          cudaStream_t stream);

/// Output and log-sum-exp of exact attention (one setting). `sums` must hold the maxima and sums of weights.
void cuda_exact_outputs(const DeviceRows& rows, const DeviceKeyValues& kv, const DeviceMatrix<const float>& scores,
                        const LevelSums& sums, const DeviceOutputs& out, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
