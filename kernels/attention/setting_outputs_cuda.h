// Exact scores and the outputs of every setting, whole chunks at a time: narrow launchers around score_tiles.cuh,
// value_tiles.cuh and level_sums.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention/level_sums_cuda.h"
#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"
#include "kernels/quantize/kivi_groups.h"

namespace attest {

/// scores[r][j] = score of q_r.k_j for visible j, 0 from there to the end of the last tile. [rows, stride]. `low`, if
/// not null: what float32 leaves of them.
void exact_scores(const DeviceRows& rows, const DeviceKeyValues& kv, const QueryParts& queries, float* scores,
                  float* low, cudaStream_t stream);

/// The values that a selector's computer reads: the first num_approximate[r] tokens from KIVI's groups, the rest exact.
struct DeviceValues {
  const float2* groups = nullptr;  ///< null: all exact
  KiviQuantizer quantizer;
  const int* num_approximate = nullptr;  ///< [rows]
};

/// Entry levels of a chunk's tokens, and what is known of them.
struct DeviceLevels {
  const Level* levels = nullptr;  ///< [rows, stride]; null: all 0
  int num_settings = 1;
  int run = 1;       ///< levels change at multiples of so many tokens alone, but for a few places of a row
  RowOrder order{};  ///< as in LevelView
  const int* order_counts = nullptr;
};

/// Output and log-sum-exp of every setting from s' [rows, stride].
void setting_outputs(const DeviceRows& rows, const DeviceKeyValues& kv, const float* scores, const DeviceLevels& levels,
                     const DeviceValues& values, const DeviceOutputs& out, DeviceArena& arena, cudaStream_t stream);

/// The one output of exact attention, whose maxima and sums of weights are known. `sums` [rows, 1].
void exact_outputs(const DeviceRows& rows, const DeviceKeyValues& kv, const float* scores, const LevelSums& sums,
                   const DeviceOutputs& out, DeviceArena& arena, cudaStream_t stream);

}  // namespace attest
