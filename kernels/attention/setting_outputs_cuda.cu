#include "kernels/attention/score_tiles.cuh"
#include "kernels/attention/setting_outputs_cuda.h"
#include "kernels/attention/sweep_in_order_cuda.h"
#include "kernels/attention/value_tiles.cuh"
#include "kernels/quantize/kivi_groups_cuda.cuh"

namespace attest {
namespace {

constexpr int kFewSettingsOfTokens = 2;  // so many are faster in one pass that rows share

LevelPartials take_partials(const DeviceRows& rows, int num_settings, int value_dim, DeviceArena& arena,
                            cudaStream_t stream) {
  LevelPartials partials{.num_splits = splits_of(rows), .pitch = (value_dim + 1) / 2 * 2};
  const std::size_t cells = static_cast<std::size_t>(partials.num_splits) * static_cast<std::size_t>(rows.num_rows) *
                            static_cast<std::size_t>(num_settings);
  partials.sums = arena.take<float>(cells * static_cast<std::size_t>(partials.pitch));
  partials.present = arena.take<std::uint8_t>(cells);
  ATTEST_CUDA(cudaMemsetAsync(partials.present, 0, cells, stream));
  return partials;
}

}  // namespace

void exact_scores(const DeviceRows& rows, const DeviceKeyValues& kv, const QueryParts& queries, float* scores,
                  float* low, cudaStream_t stream) {
  score_rows(rows, queries, kv, ExactKeys{parts_of(kv.type)}, {.scores = scores, .low = low}, stream);
}

void setting_outputs(const DeviceRows& rows, const DeviceKeyValues& kv, const float* scores, const DeviceLevels& levels,
                     const DeviceValues& values, const DeviceOutputs& out, DeviceArena& arena, cudaStream_t stream) {
  const DeviceArena::Scope scope(arena);
  const int num_settings = levels.num_settings;
  const std::size_t cells = static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(num_settings);
  LevelView view{.scores = scores,
                 .levels = levels.levels,
                 .num_settings = num_settings,
                 .in_runs = levels.run >= kTileTokens || levels.run % 16 == 0,
                 .order = levels.order,
                 .order_counts = levels.order_counts,
                 .sums = {arena.take<float>(cells), arena.take<double>(cells)}};
  sum_levels(rows, view, stream);
  LevelPartials partials[2];
  int passes = 0;
  if (values.groups != nullptr) {
    KiviValues form{.quantizer = values.quantizer,
                    .groups = values.groups,
                    .groups_per_token = kv.value_dim / values.quantizer.group};
    view.end = values.num_approximate;
    partials[passes] = take_partials(rows, num_settings, kv.value_dim, arena, stream);
    accumulate_levels(rows, kv, view, form, partials[passes++], stream);
    view.end = nullptr;
    view.begin = values.num_approximate;
  }
  partials[passes] = take_partials(rows, num_settings, kv.value_dim, arena, stream);
  if (view.order.items != nullptr && num_settings > kFewSettingsOfTokens && passes == 0)
    accumulate_in_order(rows, kv, view, partials[passes++], stream);
  else
    accumulate_levels(rows, kv, view, ExactValues{}, partials[passes++], stream);
  merge_levels(rows, view, partials, passes, kv.value_dim, out, stream);
}

void exact_outputs(const DeviceRows& rows, const DeviceKeyValues& kv, const float* scores, const LevelSums& sums,
                   const DeviceOutputs& out, DeviceArena& arena, cudaStream_t stream) {
  const DeviceArena::Scope scope(arena);
  const LevelView view{.scores = scores, .levels = nullptr, .num_settings = 1, .sums = sums};
  const LevelPartials partials = take_partials(rows, 1, kv.value_dim, arena, stream);
  accumulate_levels(rows, kv, view, ExactValues{}, partials, stream);
  merge_levels(rows, view, &partials, 1, kv.value_dim, out, stream);
}

}  // namespace attest
