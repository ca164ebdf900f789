// A sweep over levels that come in runs: rows at different levels share a product. The sums of a row stay in registers
// as long as its level does and are added to that level's when it changes.
#pragma once

#include "kernels/attention/sweep_warp.cuh"

namespace attest::value_tiles {

/// A warp's sums while its rows stay at their levels.
struct RunSums {
  float sums[kFragments][4] = {};
  std::uint32_t level[2];  // of the lane's rows; no less than the number of settings: none
  float max[2] = {};

  __device__ explicit RunSums(int settings) { level[0] = level[1] = static_cast<std::uint32_t>(settings); }

  /// Adds the sums of a row to its level's, and turns to another level.
  __device__ void turn_to(const Task& task, const WarpPlace& place, int half, std::uint32_t next) {
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
    if (next < settings) max[half] = task.view.sums.max[static_cast<std::int64_t>(row) * settings + next];
  }
};

/// Least and most level over the 16 tokens of a row; what is no setting counts as one level.
__device__ inline void range_of_levels(const LaneTokens& tokens, int half, std::uint32_t settings, std::uint32_t& least,
                                       std::uint32_t& most) {
  least = settings, most = 0;
#pragma unroll
  for (int i = half; i < 4; i += 2) {
    const std::uint32_t first = min(tokens.levels[i] & 0xFFFFu, settings),
                        second = min(tokens.levels[i] >> 16, settings);
    least = min(least, min(first, second));
    most = max(most, max(first, second));
  }
#pragma unroll
  for (int offset = 1; offset < 4; offset *= 2) {
    least = min(least, __shfl_xor_sync(0xFFFFFFFFu, least, offset));
    most = max(most, __shfl_xor_sync(0xFFFFFFFFu, most, offset));
  }
}

/// 16 tokens at which some row has several levels: one level after another.
__device__ inline void multiply_mixed(const Task& task, const WarpPlace& place, const LaneTokens& tokens,
                                      const std::uint16_t* values, RunSums& run) {
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
    for (int half = 0; half < 2; ++half)
      run.turn_to(task, place, half, place.row_in_batch(half) < place.batch.num_rows ? level : settings);
    float2 w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = tokens.weights(i, level, run.max[i % 2]);
    multiply_tokens(task, w, values, place.lane, run.sums);
    from = level + 1;
  }
}

/// Levels in runs: all at once.
template <class Form, int kRowTiles>
__device__ void sweep_runs(const Task& task, const Form& form, const WarpPlace& place, const unsigned long long* masks,
                           unsigned long long in_own_rows, std::uint16_t* values) {
  const int settings = task.view.num_settings;
  const bool works = place.sharer == 0 && place.warp_channel() < task.kv.value_dim;
  const float nothing[kFragments][4] = {};
  if (works)
    for (int level = 0; level < settings; ++level)
      if ((in_own_rows & level_bits(level, 1)) != 0)
        store_partials(task, place.batch, place.row_tile, place.warp_channel(), level, place.lane, nothing);
  RunSums run(settings);
  for_tiles<Form, kRowTiles>(task, form, place, masks, ~0ull, values, [&](int tile, const std::uint16_t* own_values) {
    if (!works || masks[tile * kRowTiles + place.row_tile] == 0) return;
    const int token = place.begin + tile * kTileTokens + place.lane % 4 * 2;
    LaneTokens next;
    next.load(place.rows, token);
#pragma unroll 1
    for (int k = 0; k < kTileTokens; k += 16) {
      const LaneTokens own = next;
      if (k + 16 < kTileTokens) next.load(place.rows, token + k + 16);
      std::uint32_t level[2];
      bool mixed = false;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t most;
        range_of_levels(own, half, static_cast<std::uint32_t>(settings), level[half], most);
        mixed = mixed || level[half] != most;
      }
      if (__any_sync(0xFFFFFFFFu, mixed)) {
        multiply_mixed(task, place, own, own_values + k * kPitch, run);
        continue;
      }
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (level[half] != run.level[half]) run.turn_to(task, place, half, level[half]);
      if (!__any_sync(0xFFFFFFFFu, static_cast<int>(min(level[0], level[1])) < settings)) continue;
      float2 w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        w[i] = static_cast<int>(level[i % 2]) < settings ? own.weights(i, level[i % 2], run.max[i % 2]) : float2{0, 0};
      multiply_tokens(task, w, own_values + k * kPitch, place.lane, run.sums);
    }
  });
  for (int half = 0; half < 2; ++half) run.turn_to(task, place, half, static_cast<std::uint32_t>(settings));
}

}  // namespace attest::value_tiles
