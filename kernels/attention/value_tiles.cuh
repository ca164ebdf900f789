// The one pass over the values for every setting of a sweep: sums of exp(s' - max) v' of every row, apart by entry
// level.
//
// A block takes up to 64 rows, a range of tokens and 128 channels, and goes through the levels that occur there: for
// one or two levels at a time the weights of their tokens (zero for all others) meet the values on tensor cores, and 16
// tokens at which none of 16 rows has the level are passed over. So a sweep costs what the levels that meet in one
// place cost, not what the grid has settings. Weights and values are split into bfloat16 parts (octet.cuh); values that
// are bfloat16 as they are come in while the tile before is multiplied. Warps that share rows and channels take tokens
// in turn, and their sums, like those of the ranges later, are added up in a fixed order.
//
// Where levels come in runs of at least 16 tokens (blocks, pages, windows) and there are many of them, rows at
// different levels share a product instead: the sums of a row stay in registers as long as its level does and are added
// to that level's when it changes.
#pragma once

#include <stdexcept>

#include "kernels/attention/sweep_levels.cuh"
#include "kernels/attention/sweep_runs.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {

namespace value_tiles {

/// kLevels 0: in runs.
template <class Form, int kRowTiles, int kLevels>
__global__ void __launch_bounds__(kThreads, 2) sweep_kernel(const Task task, const Form form) {
  constexpr int kSharers = kWarps / kRowTiles / kChannelParts;
  extern __shared__ __align__(16) std::uint16_t shared[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  WarpPlace place;
  place.batch = task.rows.batches[blockIdx.y];
  place.begin = blockIdx.x * task.tokens_per_split;
  const int end = min(place.batch.length, place.begin + task.tokens_per_split);
  if (place.begin >= end) return;
  const KeyOrigin origin = task.rows.origins[place.batch.origin];
  place.first_value = static_cast<std::int64_t>(origin.kv_head) * task.kv.tokens + origin.first_key;
  place.tiles = (end - place.begin + kTileTokens - 1) / kTileTokens;
  place.lane = static_cast<int>(threadIdx.x) % 32;
  place.row_tile = warp % kRowTiles;
  place.sharer = warp / (kRowTiles * kChannelParts);
  place.block_channel = blockIdx.z * kChannels;
  place.channel_in_block = warp / kRowTiles % kChannelParts * kWarpChannels;

  std::uint16_t* values = shared;
  auto* handed = reinterpret_cast<float4*>(values + (task.streams ? 2 : task.num_value_parts) *
                                                        kPartElements);  // of add_sharers()
  auto* masks = reinterpret_cast<unsigned long long*>(
      handed + (kSharers > 1 ? kThreads / 2 * kFragments : 0));  // [tiles, kRowTiles]
  for (int i = warp; i < place.tiles * kRowTiles; i += kWarps) {
    const unsigned long long mask =
        levels_in_tile(task, place.batch, i % kRowTiles, place.begin + i / kRowTiles * kTileTokens, place.lane);
    if (place.lane == 0) masks[i] = mask;
  }
  __syncthreads();
  unsigned long long anywhere = 0, in_own_rows = 0;
  for (int i = 0; i < place.tiles * kRowTiles; ++i) {
    anywhere |= masks[i];
    if (i % kRowTiles == place.row_tile) in_own_rows |= masks[i];
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int in_batch = place.row_in_batch(half), row = place.batch.first_row + in_batch;
    place.rows[half].range = range_of_row(task, place.batch, in_batch);
    if (in_batch >= place.batch.num_rows) continue;
    place.rows[half].scores = task.view.scores + row * task.rows.stride;
    if (task.view.levels != nullptr) place.rows[half].levels = task.view.levels + row * task.rows.stride;
  }
  if constexpr (kLevels == 0)
    sweep_runs<Form, kRowTiles>(task, form, place, masks, in_own_rows, values);
  else
    sweep_levels<Form, kRowTiles, kLevels>(task, form, place, masks, anywhere, in_own_rows, values, handed);
}

template <class Form, int kRowTiles, int kLevels>
void launch(const Task& task, const Form& form, cudaStream_t stream) {
  const bool shares = kWarps / kRowTiles / kChannelParts > 1;
  const std::size_t bytes =
      static_cast<std::size_t>(task.streams ? 2 : task.num_value_parts) * kPartElements * sizeof(std::uint16_t) +
      (shares ? kThreads / 2 * kFragments * sizeof(float4) : 0) +
      static_cast<std::size_t>(task.tokens_per_split / kTileTokens) * kRowTiles * 8;
  const auto kernel = sweep_kernel<Form, kRowTiles, kLevels>;
  allow_shared_memory(kernel, bytes);
  const dim3 grid(task.partials.num_splits, task.rows.num_batches, (task.kv.value_dim + kChannels - 1) / kChannels);
  kernel<<<grid, kThreads, bytes, stream>>>(task, form);
  ATTEST_CUDA_LAUNCHED(sweep_kernel);
}

template <class Form, int kRowTiles>
void launch(const Task& task, const Form& form, cudaStream_t stream) {
  if constexpr (!Form::exact) {
    if (task.view.num_settings != 1)
      throw std::logic_error("accumulate_levels: values that are not exact come with one setting");
    launch<Form, kRowTiles, 1>(task, form, stream);
    return;
  }
  if (task.view.num_settings == 1)
    launch<Form, kRowTiles, 1>(task, form, stream);
  else if (task.view.num_settings > 2 && task.view.in_runs)
    launch<Form, kRowTiles, 0>(task, form, stream);
  else
    launch<Form, kRowTiles, 2>(task, form, stream);
}

}  // namespace value_tiles

/// Fills partials (present must be 0) for the tokens of `view` with values in the form given: a plain struct with
/// `exact` and operator()(place, value[8]).
template <class Form>
void accumulate_levels(const DeviceRows& rows, const DeviceKeyValues& kv, const LevelView& view, const Form& form,
                       const LevelPartials& partials, cudaStream_t stream) {
  const int order = kv.type == ElementType::float32 ? 2 : 1;
  const int value_parts = Form::exact && parts_of(kv.type) < order + 1 ? parts_of(kv.type) : order + 1;
  const bool streams = Form::exact && kv.type == ElementType::bfloat16 && kv.value_dim % kOctet == 0;
  const value_tiles::Task task{rows, kv, view, partials, tokens_per_split(rows.longest), value_parts, order, streams};
  if (rows.num_batches == 0) return;
  if (rows.max_batch_rows <= 16)
    value_tiles::launch<Form, 1>(task, form, stream);
  else
    value_tiles::launch<Form, 4>(task, form, stream);
}

}  // namespace attest
