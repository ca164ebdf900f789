// What a selection leads to on the device: the outputs of every setting.
#pragma once

#include "kernels/attention/setting_outputs_cuda.h"
#include "kernels/selectors/cuda_chunk.h"

namespace attest {

/// Outputs and log-sum-exps of all settings, as selection_outputs() has them: sinks and mean values are included.
/// Everything is enqueued on the chunk's stream.
DeviceOutputs cuda_selection_outputs(const CudaChunk& chunk, const CudaSelection& selection, int num_settings);

}  // namespace attest
