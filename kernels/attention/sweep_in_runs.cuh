// One pass over the values for all settings of a sweep: sums of exp(s' - max) v' per (row, entry level).
//
// A block takes up to 64 rows, a range of tokens and 128 channels. Tensor cores multiply the weights of 16 rows at 16
// tokens by the values; rows at different levels share one product. The sums of a row stay in registers while its level
// does not change. When it changes, they are added to the sums of that level in device memory. Levels of blocks, pages
// and windows are constant over 16 or more tokens. If a row has several levels among 16 tokens, one product per level
// is computed. Weights and values are split into bfloat16 parts (octet.cuh). The sums of the token ranges are added
// later, in a fixed order.
#pragma once

#include "kernels/attention/sweep_tiles.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {

namespace sweep_tiles {

/// A warp's sums at the current levels of its rows.
template <int kRowTiles>
struct RunSums {
  static constexpr int kFragments = kWarpChannels<kRowTiles> / 8;
  Sums<kRowTiles> sums = {};
  std::uint32_t level[2];  // of the lane's two rows; values >= the number of settings: none
  float max[2] = {};

  __device__ explicit RunSums(int settings) { level[0] = level[1] = static_cast<std::uint32_t>(settings); }

  /// Changes the row's level to `next`. If that differs from the current level, first adds the row's sums to the
  /// partial sums of the current level and clears them.
  __device__ void switch_level(const Task& task, const WarpPlace& place, int half, std::uint32_t next) {
    if (level[half] == next) return;
    const auto settings = static_cast<std::uint32_t>(task.view.num_settings);
    const int row = place.batch.first_row + place.row_in_batch(half), pitch = task.partials.pitch;
    if (level[half] < settings) {
      const std::int64_t at =
          (static_cast<std::int64_t>(blockIdx.x) * task.rows.num_rows + row) * settings + level[half];
      float2* to =
          reinterpret_cast<float2*>(task.partials.sums + at * pitch + place.warp_channel() + place.lane % 4 * 2);
      const int valid = pitch - place.warp_channel() - place.lane % 4 * 2;
      float2 old[kFragments];
#pragma unroll
      for (int n = 0; n < kFragments; ++n) old[n] = n * 8 < valid ? to[n * 4] : float2{0, 0};
#pragma unroll
      for (int n = 0; n < kFragments; ++n) {
        if (n * 8 < valid) to[n * 4] = {old[n].x + sums[n][2 * half], old[n].y + sums[n][2 * half + 1]};
        sums[n][2 * half] = sums[n][2 * half + 1] = 0;
      }
    }
    level[half] = next;
    if (next < settings) max[half] = task.view.sums.max.row(row)[next];
  }
};

/// The level of the first of a row's 16 tokens. Levels above `settings` count as `settings`. Sets `mixed` if one of the
/// lane's tokens has another level.
__device__ inline std::uint32_t first_level(const LaneTokens& tokens, const WarpPlace& place, int half,
                                            std::uint32_t settings, bool& mixed) {
  const std::uint32_t first = __shfl_sync(0xFFFFFFFFu, min(tokens.levels[half] & 0xFFFFu, settings), place.lane & ~3);
#pragma unroll
  for (int i = half; i < 4; i += 2)
    mixed =
        mixed || min(tokens.levels[i] & 0xFFFFu, settings) != first || min(tokens.levels[i] >> 16, settings) != first;
  return first;
}

/// Handles 16 tokens at which some row has several levels: one product per level, ascending. A row changes to a level
/// only if one of its tokens has it, so its sums do not depend on the other rows.
template <int kRowTiles>
__device__ void multiply_level_by_level(const Task& task, const WarpPlace& place, const LaneTokens& tokens,
                                        const std::uint16_t* values, RunSums<kRowTiles>& run) {
  const auto settings = static_cast<std::uint32_t>(task.view.num_settings);
  for (std::uint32_t from = 0;;) {
    std::uint32_t level = settings;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      for (std::uint32_t own : {tokens.levels[i] & 0xFFFFu, tokens.levels[i] >> 16})
        if (own >= from && own < level) level = own;
    level = __reduce_min_sync(0xFFFFFFFFu, level);
    if (level >= settings) break;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned lanes = __ballot_sync(0xFFFFFFFFu, tokens.have(half, level));
      const bool of_row = (lanes >> (place.lane & ~3) & 0xFu) != 0;
      if (of_row) run.switch_level(task, place, half, level);
    }
    float2 w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = tokens.weights(i, level, run.max[i % 2]);
    multiply_tokens(task, w, values, place.lane, run.sums);
    from = level + 1;
  }
}

/// Marks the levels of the warp's rows as present, with sums of 0. `levels` has bit l % 64 set for level l, so level l
/// may also be marked because level l + 64 occurs.
template <int kRowTiles>
__device__ void clear_partials(const Task& task, const WarpPlace& place, unsigned long long levels) {
  const int pitch = task.partials.pitch, settings = task.view.num_settings;
  for (int level = 0; level < settings; ++level) {
    if ((levels >> (level % 64) & 1) == 0) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (place.row_in_batch(half) >= place.batch.num_rows) continue;
      const int row = place.batch.first_row + place.row_in_batch(half);
      const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * task.rows.num_rows + row) * settings + level;
      if (place.lane % 4 == 0 && place.warp_channel() == 0) task.partials.present[at] = 1;
#pragma unroll
      for (int n = 0; n < kWarpChannels<kRowTiles>; n += 8) {
        const int channel = place.warp_channel() + n + place.lane % 4 * 2;
        if (channel < pitch) *reinterpret_cast<float2*>(task.partials.sums + at * pitch + channel) = {0, 0};
      }
    }
  }
}

/// Whether the warps of a block have the same rows. Then each computes the weights at 16 tokens of a tile for all.
template <int kRowTiles>
inline constexpr bool kSharesWeights = kRowTiles == 1;

/// Weights of 16 rows at the tokens of a tile, in shared memory, in steps of 16 tokens.
struct TileWeights {
  static constexpr int kSteps = kTileTokens / 16;
  static_assert(kSteps == kWarps);
  enum Kind : std::uint32_t { kNone, kOneLevelPerRow, kMixed };

  uint4* fragments;       ///< [kSteps, parts, 32] A fragments of the bfloat16 parts, for kOneLevelPerRow
  std::uint32_t* levels;  ///< [kSteps, 32] levels of the lane's two rows, for kOneLevelPerRow
  std::uint32_t* kinds;   ///< [kSteps]
  int parts;

  /// No parts: nothing is shared.
  __host__ __device__ static std::size_t bytes(int parts) {
    const std::size_t of_step = static_cast<std::size_t>(parts) * 32 * sizeof(uint4) + 33 * sizeof(std::uint32_t);
    return parts == 0 ? 0 : kSteps * of_step;
  }
  __device__ TileWeights(void* shared, int parts)
      : fragments(static_cast<uint4*>(shared)),
        levels(reinterpret_cast<std::uint32_t*>(fragments + kSteps * parts * 32)),
        kinds(levels + kSteps * 32),
        parts(parts) {}

  /// Called by the warp whose number is `step`; `first` is the first token of the tile.
  __device__ void fill(const Task& task, const WarpPlace& place, int step, int first) const {
    const auto settings = static_cast<std::uint32_t>(task.view.num_settings);
    LaneTokens own;
    own.load(place.rows, first + step * 16 + place.lane % 4 * 2);
    std::uint32_t level[2];
    bool mixed = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) level[half] = first_level(own, place, half, settings, mixed);
    mixed = __any_sync(0xFFFFFFFFu, mixed);
    const bool some = __any_sync(0xFFFFFFFFu, min(level[0], level[1]) < settings);
    if (place.lane == 0) kinds[step] = mixed ? kMixed : some ? kOneLevelPerRow : kNone;
    if (mixed || !some) return;
    levels[step * 32 + place.lane] = level[0] | level[1] << 16;
    float max[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (level[half] < settings)
        max[half] = task.view.sums.max.row(place.batch.first_row + place.row_in_batch(half))[level[half]];
    float2 w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      w[i] = level[i % 2] < settings ? own.weights(i, level[i % 2], max[i % 2]) : float2{0, 0};
    for (int i = 0; i < parts; ++i) fragments[(step * parts + i) * 32 + place.lane] = split_leading_weights(w);
  }

  /// Multiplies the warp's channels at all tokens of the tile.
  template <int kRowTiles>
  __device__ void multiply(const Task& task, const WarpPlace& place, int first, const std::uint16_t* values,
                           RunSums<kRowTiles>& run) const {
    const auto settings = static_cast<std::uint32_t>(task.view.num_settings);
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
      const std::uint32_t kind = kinds[step];
      if (kind == kNone) continue;
      const std::uint16_t* own_values = values + step * 16 * kPitch;
      if (kind == kMixed) {
        LaneTokens own;
        own.load(place.rows, first + step * 16 + place.lane % 4 * 2);
        multiply_level_by_level(task, place, own, own_values, run);
        continue;
      }
      const std::uint32_t level = levels[step * 32 + place.lane];
      if ((level & 0xFFFFu) < settings) run.switch_level(task, place, 0, level & 0xFFFFu);
      if (level >> 16 < settings) run.switch_level(task, place, 1, level >> 16);
      multiply_parts(
          task, [&](int i) { return fragments[(step * parts + i) * 32 + place.lane]; }, own_values, place.lane,
          run.sums);
    }
  }
};

/// Multiplies a tile whose warps have different rows.
template <int kRowTiles>
__device__ void multiply_own_rows(const Task& task, const WarpPlace& place, int first, const std::uint16_t* own_values,
                                  RunSums<kRowTiles>& run) {
  const int settings = task.view.num_settings, token = first + place.lane % 4 * 2;
  LaneTokens next;
  next.load(place.rows, token);
#pragma unroll 1
  for (int k = 0; k < kTileTokens; k += 16) {
    const LaneTokens own = next;
    if (k + 16 < kTileTokens) next.load(place.rows, token + k + 16);
    std::uint32_t level[2];
    bool mixed = false;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      level[half] = first_level(own, place, half, static_cast<std::uint32_t>(settings), mixed);
    if (__any_sync(0xFFFFFFFFu, mixed)) {
      multiply_level_by_level(task, place, own, own_values + k * kPitch, run);
      continue;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (static_cast<int>(level[half]) < settings) run.switch_level(task, place, half, level[half]);
    if (!__any_sync(0xFFFFFFFFu, static_cast<int>(min(level[0], level[1])) < settings)) continue;
    float2 w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      w[i] = static_cast<int>(level[i % 2]) < settings ? own.weights(i, level[i % 2], run.max[i % 2]) : float2{0, 0};
    multiply_tokens(task, w, own_values + k * kPitch, place.lane, run.sums);
  }
}

template <class Form, int kRowTiles>
__device__ void sweep(const Task& task, const Form& form, const WarpPlace& place, const unsigned long long* masks,
                      unsigned long long in_own_rows, std::uint16_t* values, const TileWeights& weights) {
  const int settings = task.view.num_settings;
  const bool works = place.warp_channel() < task.kv.value_dim;
  if (works) clear_partials<kRowTiles>(task, place, in_own_rows);
  RunSums<kRowTiles> run(settings);
  const auto first_token = [&](int tile) { return place.begin + tile * kTileTokens; };
  for_tiles<Form, kRowTiles>(
      task, form, place, masks, values,
      [&](int tile) {
        if constexpr (kSharesWeights<kRowTiles>)
          weights.fill(task, place, static_cast<int>(threadIdx.x) / 32, first_token(tile));
      },
      [&](int tile, const std::uint16_t* own_values) {
        if (!works || masks[tile * kRowTiles + place.row_tile] == 0) return;
        if constexpr (kSharesWeights<kRowTiles>)
          weights.multiply(task, place, first_token(tile), own_values, run);
        else
          multiply_own_rows(task, place, first_token(tile), own_values, run);
      });
  for (int half = 0; half < 2; ++half) run.switch_level(task, place, half, static_cast<std::uint32_t>(settings));
}

template <class Form, int kRowTiles>
__global__ void __launch_bounds__(kThreads, 2) sweep_kernel(const Task task, const Form form) {
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
  place.block_channel = blockIdx.z * kChannels;
  place.channel_in_block = warp / kRowTiles * kWarpChannels<kRowTiles>;

  std::uint16_t* values = shared;
  std::uint16_t* behind = values + task.buffers() * kPartElements;
  const int parts = kSharesWeights<kRowTiles> ? task.lowest_order + 1 : 0;
  const TileWeights weights(behind, parts);
  auto* masks = reinterpret_cast<unsigned long long*>(behind + TileWeights::bytes(parts) / 2);  // [tiles, kRowTiles]
  for (int i = warp; i < place.tiles * kRowTiles; i += kWarps) {
    const unsigned long long mask =
        levels_in_tile(task, place.batch, i % kRowTiles, place.begin + i / kRowTiles * kTileTokens, place.lane);
    if (place.lane == 0) masks[i] = mask;
  }
  __syncthreads();
  unsigned long long in_own_rows = 0;
  for (int tile = 0; tile < place.tiles; ++tile) in_own_rows |= masks[tile * kRowTiles + place.row_tile];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int in_batch = place.row_in_batch(half), row = place.batch.first_row + in_batch;
    place.rows[half].range = range_of_row(task, place.batch, in_batch);
    if (in_batch >= place.batch.num_rows) continue;
    place.rows[half].scores = task.view.scores.row(row);
    if (task.view.levels) place.rows[half].levels = task.view.levels.row(row);
  }
  sweep<Form, kRowTiles>(task, form, place, masks, in_own_rows, values, weights);
}

template <class Form, int kRowTiles>
void launch(const Task& task, const Form& form, cudaStream_t stream) {
  const std::size_t bytes = static_cast<std::size_t>(task.buffers()) * kPartElements * sizeof(std::uint16_t) +
                            TileWeights::bytes(kSharesWeights<kRowTiles> ? task.lowest_order + 1 : 0) +
                            static_cast<std::size_t>(task.tokens_per_split / kTileTokens) * kRowTiles * 8;
  const auto kernel = sweep_kernel<Form, kRowTiles>;
  allow_shared_memory(kernel, bytes);
  const dim3 grid(task.partials.num_splits, task.rows.num_batches, (task.kv.value_dim + kChannels - 1) / kChannels);
  kernel<<<grid, kThreads, bytes, stream>>>(task, form);
  ATTEST_CUDA_LAUNCHED(sweep_kernel);
}

}  // namespace sweep_tiles

/// Bfloat16 parts i of weights and j of values are multiplied for i + j <= this, in a layer of this type: outputs are
/// compared with those of exact values, which are rounded in `type`.
constexpr int sweep_order(ElementType type) { return type == ElementType::float32 ? 2 : 1; }

/// Fills partials (initially none present) for the tokens of `view`, with values in the given form. A form is a plain
/// struct with `exact` (it changes nothing) and operator()(place, value[8]), which changes eight exact values in place.
template <class Form>
void sweep_in_runs(const DeviceRows& rows, const DeviceKeyValues& kv, const SweepView& view, const Form& form,
                   const LevelPartials& partials, int order, cudaStream_t stream) {
  const int value_parts = Form::exact && parts_of(kv.type) < order + 1 ? parts_of(kv.type) : order + 1;
  const bool streams = Form::exact && kv.type == ElementType::bfloat16 && kv.value_dim % kOctet == 0;
  const sweep_tiles::Task task{rows,        kv,    view,   partials, tokens_per_split(rows.layer_max_length),
                               value_parts, order, streams};
  if (rows.num_batches == 0) return;
  if (rows.max_batch_rows <= 16)
    sweep_tiles::launch<Form, 1>(task, form, stream);
  else
    sweep_tiles::launch<Form, 4>(task, form, stream);
}

}  // namespace attest
