// Calls the kernels of kernels/attention/ as the selection says.
#include "kernels/selectors/selection_outputs_cuda.h"

#include "kernels/attention/mean_value_cuda.h"
#include "kernels/attention/sinks_cuda.h"

namespace attest {

DeviceOutputs cuda_selection_outputs(const CudaChunk& chunk, const CudaSelection& selection, int num_settings) {
  const DeviceOutputs outputs = take_outputs(chunk.rows, num_settings, chunk.kv.value_dim, *chunk.arena);
  const SweepView sweep{
      .scores = chunk.by_tokens(selection.read_scores == nullptr ? chunk.exact : selection.read_scores),
      .levels = chunk.by_tokens(selection.levels),
      .num_settings = num_settings,
      .order = selection.level_order};
  const DeviceValues values{selection.value_groups, selection.value_quantizer, selection.num_approximate.device,
                            selection.made_values};
  cuda_setting_outputs(chunk.rows, chunk.kv, sweep, values, outputs, *chunk.arena, chunk.stream);
  cuda_add_sinks(chunk.rows, outputs, chunk.stream);
  if (selection.mean_value_share)
    cuda_blend_mean_values(chunk.rows, chunk.kv, selection.mean_value_share, outputs, *chunk.arena, chunk.stream);
  return outputs;
}

}  // namespace attest
