// A sweep level by level: the weights of one or two levels at a time, zero for all other tokens, in products that all
// rows share.
#pragma once

#include "kernels/attention/sweep_warp.cuh"

namespace attest::value_tiles {

template <int kLevels>
using Sums = float[kLevels][kFragments][4];

/// sums += weights (16 rows) * values (kWarpChannels channels) at levels [level, level + kLevels) over every
/// kSharers-th 16 tokens of the tile at token `first`.
template <int kSharers, int kLevels>
__device__ void multiply_tile(const Task& task, const LaneRow (&rows)[2], const float (&max)[kLevels][2], int first,
                              int level, int sharer, const std::uint16_t* values, int lane, Sums<kLevels>& sums) {
  const int token = first + lane % 4 * 2;
  LaneTokens next;
  next.load(rows, token + sharer * 16);
#pragma unroll 1
  for (int k = sharer * 16; k < kTileTokens; k += kSharers * 16) {
    const LaneTokens own = next;
    if (k + kSharers * 16 < kTileTokens) next.load(rows, token + k + kSharers * 16);
#pragma unroll
    for (int l = 0; l < kLevels; ++l) {
      if (level + l >= task.view.num_settings) break;
      const auto wanted = static_cast<std::uint32_t>(level + l);
      if (!__any_sync(0xFFFFFFFFu, own.have(wanted))) continue;
      float2 w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i] = own.weights(i, wanted, max[l][i % 2]);
      multiply_tokens(task, w, values + k * kPitch, lane, sums[l]);
    }
  }
}

/// Adds the sums of the warps that share rows and channels, into those of the first: halves of the sharers in turn.
/// `shared` holds half of the block's sums; `lane_of_peers` tells those of different rows and channels apart.
template <int kSharers>
__device__ void add_sharers(int lane_of_peers, int sharer, float (&sums)[kFragments][4], float4* shared) {
  constexpr int kPeers = kThreads / kSharers;
#pragma unroll
  for (int half = kSharers / 2; half > 0; half /= 2) {
    float4* slot = shared + sharer % half * kFragments * kPeers + lane_of_peers;
    __syncthreads();
    if (sharer >= half && sharer < 2 * half)
#pragma unroll
      for (int n = 0; n < kFragments; ++n) slot[n * kPeers] = {sums[n][0], sums[n][1], sums[n][2], sums[n][3]};
    __syncthreads();
    if (sharer >= half) continue;
#pragma unroll
    for (int n = 0; n < kFragments; ++n) {
      const float4 other = slot[n * kPeers];
      sums[n][0] += other.x, sums[n][1] += other.y, sums[n][2] += other.z, sums[n][3] += other.w;
    }
  }
}

/// One or two levels at a time.
template <class Form, int kRowTiles, int kLevels>
__device__ void sweep_levels(const Task& task, const Form& form, const WarpPlace& place,
                             const unsigned long long* masks, unsigned long long anywhere,
                             unsigned long long in_own_rows, std::uint16_t* values, float4* handed) {
  constexpr int kSharers = kWarps / kRowTiles / kChannelParts;  // warps with the same rows and channels
  const int settings = task.view.num_settings, warp = static_cast<int>(threadIdx.x) / 32;
  for (int level = 0; level < settings; level += kLevels) {
    const unsigned long long bits = level_bits(level, min(kLevels, settings - level));
    if ((anywhere & bits) == 0) continue;
    float max[kLevels][2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int l = 0; l < kLevels; ++l)
        if (place.row_in_batch(half) < place.batch.num_rows && level + l < settings)
          max[l][half] =
              task.view.sums
                  .max[static_cast<std::int64_t>(place.batch.first_row + place.row_in_batch(half)) * settings + level +
                       l];
    Sums<kLevels> sums = {};
    for_tiles<Form, kRowTiles>(task, form, place, masks, bits, values, [&](int tile, const std::uint16_t* own_values) {
      if ((masks[tile * kRowTiles + place.row_tile] & bits) != 0 && place.warp_channel() < task.kv.value_dim)
        multiply_tile<kSharers, kLevels>(task, place.rows, max, place.begin + tile * kTileTokens, level, place.sharer,
                                         own_values, place.lane, sums);
    });
#pragma unroll
    for (int l = 0; l < kLevels; ++l) {
      add_sharers<kSharers>(warp % (kRowTiles * kChannelParts) * 32 + place.lane, place.sharer, sums[l], handed);
      if (place.sharer == 0 && level + l < settings && (in_own_rows & level_bits(level + l, 1)) != 0)
        store_partials(task, place.batch, place.row_tile, place.warp_channel(), level + l, place.lane, sums[l]);
    }
  }
}

}  // namespace attest::value_tiles
