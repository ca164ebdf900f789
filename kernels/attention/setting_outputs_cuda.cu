// Runs the passes over the values: level sums, approximate and exact value sums, prefix merge.
#include "kernels/attention/setting_outputs_cuda.h"
#include "kernels/attention/sweep_in_order_cuda.h"
#include "kernels/attention/sweep_in_runs.cuh"
#include "kernels/quantize/kivi_groups_cuda.cuh"

namespace attest {
namespace {

constexpr int kFewSettings = 2;  // up to this S, sweep_in_runs() is faster even if levels form no runs

}  // namespace

void cuda_setting_outputs(const DeviceRows& rows, const DeviceKeyValues& kv, const SweepView& view,
                          const DeviceValues& values, const DeviceOutputs& out, DeviceArena& arena,
                          cudaStream_t stream) {
  const DeviceArena::Scope scope(arena);
  SweepView sweep = view;
  sweep.sums = take_level_sums(rows, view.num_settings, arena);
  cuda_sum_levels(rows, sweep, stream);
  const int order = sweep_order(kv.type);
  LevelPartials partials[2];
  int passes = 0;
  if (values.groups != nullptr) {
    const KiviValues form{.quantizer = values.quantizer,
                          .groups = values.groups,
                          .groups_per_token = kv.value_dim / values.quantizer.group};
    sweep.end = values.num_approximate;
    partials[passes] = take_partials(rows, view.num_settings, kv.value_dim, arena, stream);
    sweep_in_runs(rows, kv, sweep, form, partials[passes++], order, stream);
    sweep.end = nullptr;
    sweep.begin = values.num_approximate;
  }
  partials[passes] = take_partials(rows, view.num_settings, kv.value_dim, arena, stream);
  const bool made = values.made.data != nullptr;
  const DeviceRows seen = made ? values.made.seen_by(rows) : rows;
  const DeviceKeyValues read = made ? values.made.as_values(kv) : kv;
  if (sweep.order && view.num_settings > kFewSettings && passes == 0)
    cuda_sweep_in_order(seen, read, sweep, partials[passes++], stream);
  else
    sweep_in_runs(seen, read, sweep, ExactValues{}, partials[passes++], order, stream);
  cuda_merge_levels(rows, sweep.sums, partials, passes, out, stream);
}

void cuda_exact_outputs(const DeviceRows& rows, const DeviceKeyValues& kv, const DeviceMatrix<const float>& scores,
                        const LevelSums& sums, const DeviceOutputs& out, DeviceArena& arena, cudaStream_t stream) {
  const DeviceArena::Scope scope(arena);
  const LevelPartials partials = take_partials(rows, 1, kv.value_dim, arena, stream);
  sweep_in_runs(rows, kv, {.scores = scores, .sums = sums}, ExactValues{}, partials, sweep_order(kv.type), stream);
  cuda_merge_levels(rows, sums, &partials, 1, out, stream);
}

}  // namespace attest
