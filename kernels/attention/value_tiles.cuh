// The one pass over the values for every setting of a sweep: sums of exp(s' - max) v' of every row, apart by entry level.
//
// A block takes up to 64 rows, a range of tokens and 128 channels, and goes through the levels that occur there: for one or two
// levels at a time the weights of their tokens (zero for all others) meet the values on tensor cores, and 16 tokens at which none
// of 16 rows has the level are passed over. So a sweep costs what the levels that meet in one place cost, not what the grid has
// settings. Weights and values are split into bfloat16 parts (octet.cuh); values that are bfloat16 as they are come in while the
// tile before is multiplied. Warps that share rows and channels take tokens in turn, and their sums, like those of the ranges
// later, are added up in a fixed order.
//
// Where levels come in runs of at least 16 tokens (blocks, pages, windows) and there are many of them, rows at different levels share
// a product instead: the sums of a row stay in registers as long as its level does and are added to that level's when it changes.
#pragma once

#include <stdexcept>

#include "kernels/attention/device_rows.h"
#include "kernels/attention/level_accumulate.h"
#include "kernels/attention/level_sums.h"
#include "kernels/device/async_copy.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/octet.cuh"
#include "kernels/device/tensor_core.cuh"

namespace attest {

/// Where eight channels of a value stand.
struct ValuePlace {
  std::int64_t value;  ///< among all values on the device: kv_head * tokens + token of the sample
  int channel;
};

/// Values as they are.
struct ExactValues {
  static constexpr bool exact = true;
  __device__ void operator()(const ValuePlace&, float (&)[kOctet]) const {}
};

namespace value_tiles {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kChannels = 128;
inline constexpr int kPitch = kChannels + 8;  // 16 bytes more: no bank conflicts
inline constexpr int kPartElements = kTileTokens * kPitch;
inline constexpr int kChannelParts = 2;       // warps with the same rows and tokens share the channels between them
inline constexpr int kWarpChannels = kChannels / kChannelParts;
inline constexpr int kFragments = kWarpChannels / 8;
inline constexpr int kMostParts = 3;

struct Task {
  DeviceRows rows;
  DeviceKeyValues kv;
  LevelView view;
  LevelPartials partials;
  int tokens_per_split;
  int num_value_parts;
  int lowest_order;  // parts i of the weight and j of the value are multiplied for i + j <= this
  bool streams;      // values are staged as they are, two tiles in turn
};

/// Tokens of a row that this pass reads.
struct RowRange {
  int begin = 0, end = 0;
  __device__ bool contains(int token) const { return token >= begin && token < end; }
};

__device__ inline RowRange range_of_row(const Task& task, const RowBatch& batch, int in_batch) {
  if (in_batch >= batch.num_rows) return {};
  const int row = batch.first_row + in_batch;
  RowRange range{0, task.rows.visible[row]};
  if (task.view.begin != nullptr) range.begin = task.view.begin[row];
  if (task.view.end != nullptr) range.end = min(range.end, task.view.end[row]);
  return range;
}

/// Bit l % 64 where a token of the 16 rows x 128 tokens has level l. Every lane gets the result.
__device__ inline unsigned long long levels_in_tile(const Task& task, const RowBatch& batch, int row_tile, int first, int lane) {
  unsigned long long found = 0;
  for (int r = lane / 16; r < 16; r += 2) {
    const int in_batch = row_tile * 16 + r, token = first + lane % 16 * 8;
    const RowRange range = range_of_row(task, batch, in_batch);
    if (token >= range.end || token + 8 <= range.begin) continue;
    if (task.view.levels == nullptr) {
      found = 1;
      continue;
    }
    const uint4 eight = *reinterpret_cast<const uint4*>(task.view.levels + (batch.first_row + in_batch) * task.rows.stride + token);
    const std::uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int level = static_cast<int>(words[i / 2] >> (i % 2 * 16) & 0xFFFFu);
      if (range.contains(token + i) && level < task.view.num_settings) found |= 1ull << (level % 64);
    }
  }
  return static_cast<unsigned long long>(__reduce_or_sync(0xFFFFFFFFu, static_cast<std::uint32_t>(found))) |
         static_cast<unsigned long long>(__reduce_or_sync(0xFFFFFFFFu, static_cast<std::uint32_t>(found >> 32))) << 32;
}

/// Stages tokens [first, first + 128) and channels [channel, channel + 128), parts after each other; 0 beyond the end.
template <class Form>
__device__ void stage_values(const Task& task, const Form& form, const RowBatch& batch, std::int64_t first_value, int first, int channel,
                             std::uint16_t* shared) {
  constexpr int kOctets = kChannels / kOctet, kAtOnce = kThreads / kOctets, kLoads = 4;
  const int octet = threadIdx.x % kOctets, at = channel + octet * kOctet, dim = task.kv.value_dim;
  for (int pass = 0; pass < kTileTokens / kAtOnce; pass += kLoads) {
    float value[kLoads][kOctet];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int token = first + static_cast<int>(threadIdx.x) / kOctets + (pass + i) * kAtOnce;
      load_octet(task.kv.type, task.kv.values, (first_value + token) * dim + at, token < batch.length ? dim - at : 0, dim, value[i]);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int slot = static_cast<int>(threadIdx.x) / kOctets + (pass + i) * kAtOnce;
      if (first + slot < batch.length && at < dim) form(ValuePlace{first_value + first + slot, at}, value[i]);
      std::uint16_t* target = shared + slot * kPitch + octet * kOctet;
      for (int part = 0; part < task.num_value_parts; ++part, target += kPartElements)
        *reinterpret_cast<uint4*>(target) = take_parts(value[i]);
    }
  }
}

/// Copies the same for values of one part that need no change, asynchronously.
__device__ inline void begin_values(const Task& task, const RowBatch& batch, std::int64_t first_value, int first, int channel, std::uint16_t* shared) {
  constexpr int kOctets = kChannels / kOctet, kAtOnce = kThreads / kOctets;
  const int octet = threadIdx.x % kOctets, at = channel + octet * kOctet, dim = task.kv.value_dim;
  const auto* values = static_cast<const std::uint16_t*>(task.kv.values);
  for (int slot = static_cast<int>(threadIdx.x) / kOctets; slot < kTileTokens; slot += kAtOnce) {
    const int token = first + slot;
    const bool wanted = token < batch.length && at < dim;
    copy_async(shared + slot * kPitch + octet * kOctet, wanted ? values + (first_value + token) * dim + at : values, wanted ? 16 : 0);
  }
}

/// One of the two rows whose weights a lane makes.
struct LaneRow {
  RowRange range;
  const float* scores = nullptr;
  const Level* levels = nullptr;
};

/// What a lane's weights at 16 tokens are made of: rows and tokens as in a fragment of mma, two neighbouring tokens each.
struct LaneTokens {
  static constexpr std::uint32_t kNone = 0xFFFFu;  // no level
  std::uint32_t levels[4];
  float2 scores[4];

  __device__ void load(const LaneRow (&rows)[2], int first) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const LaneRow& row = rows[i % 2];
      const int token = first + i / 2 * 8;
      levels[i] = kNone | kNone << 16;
      scores[i] = {0, 0};
      if (row.range.end <= token || token + 2 <= row.range.begin) continue;
      const std::uint32_t pair = row.levels == nullptr ? 0 : *reinterpret_cast<const std::uint32_t*>(row.levels + token);
      levels[i] = (row.range.contains(token) ? pair & 0xFFFFu : kNone) | (row.range.contains(token + 1) ? pair & 0xFFFF0000u : kNone << 16);
      scores[i] = *reinterpret_cast<const float2*>(row.scores + token);
    }
  }
  __device__ bool have(std::uint32_t level) const {
    bool any = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) any = any || (levels[i] & 0xFFFFu) == level || levels[i] >> 16 == level;
    return any;
  }
  /// exp(s' - max) of the tokens at the level, 0 for the others.
  __device__ float2 weights(int i, std::uint32_t level, float max) const {
    return {(levels[i] & 0xFFFFu) == level ? __expf(scores[i].x - max) : 0.0f, levels[i] >> 16 == level ? __expf(scores[i].y - max) : 0.0f};
  }
};

/// Takes the leading bfloat16 parts off a pair.
__device__ inline std::uint32_t take_pair(float2& x) {
  const __nv_bfloat162 part = __floats2bfloat162_rn(x.x, x.y);
  x.x -= __low2float(part);
  x.y -= __high2float(part);
  return reinterpret_cast<const std::uint32_t&>(part);
}

/// sums += weights * values at 16 tokens.
__device__ inline void multiply_tokens(const Task& task, float2 (&w)[4], const std::uint16_t* values, int lane, float (&sums)[kFragments][4]) {
#pragma unroll
  for (int i = 0; i < kMostParts; ++i) {
    if (i > task.lowest_order) break;
    const std::uint32_t a[4] = {take_pair(w[0]), take_pair(w[1]), take_pair(w[2]), take_pair(w[3])};
    for (int j = 0; j < task.num_value_parts && i + j <= task.lowest_order; ++j) {
#pragma unroll
      for (int n = 0; n < kWarpChannels; n += 16) {
        std::uint32_t b[4];
        load_b_rows(b, values + j * kPartElements + n, kPitch, lane);
        multiply_add(sums[n / 8], a, b[0], b[1]);
        multiply_add(sums[n / 8 + 1], a, b[2], b[3]);
      }
    }
  }
}

template <int kLevels>
using Sums = float[kLevels][kFragments][4];

/// sums += weights (16 rows) * values (kWarpChannels channels) at levels [level, level + kLevels) over every kSharers-th 16 tokens of
/// the tile at token `first`.
template <int kSharers, int kLevels>
__device__ void multiply_tile(const Task& task, const LaneRow (&rows)[2], const float (&max)[kLevels][2], int first, int level, int sharer,
                              const std::uint16_t* values, int lane, Sums<kLevels>& sums) {
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

/// Adds the sums of the warps that share rows and channels, into those of the first: halves of the sharers in turn. `shared` holds
/// half of the block's sums; `lane_of_peers` tells those of different rows and channels apart.
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

/// Writes a warp's sums of 16 rows and its channels, from `first_channel` on, at one level.
__device__ inline void store_partials(const Task& task, const RowBatch& batch, int row_tile, int first_channel, int level, int lane,
                                      const float (&sums)[kFragments][4]) {
  const int pitch = task.partials.pitch, settings = task.view.num_settings;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int in_batch = row_tile * 16 + lane / 4 + half * 8;
    if (in_batch >= batch.num_rows) continue;
    const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * task.rows.num_rows + batch.first_row + in_batch) * settings + level;
    if (lane % 4 == 0 && first_channel == 0) task.partials.present[at] = 1;
#pragma unroll
    for (int n = 0; n < kFragments; ++n) {
      const int channel = first_channel + n * 8 + lane % 4 * 2;
      if (channel < pitch) *reinterpret_cast<float2*>(task.partials.sums + at * pitch + channel) = {sums[n][2 * half], sums[n][2 * half + 1]};
    }
  }
}

/// Bits of levels [first, first + count) in masks of levels.
__device__ inline unsigned long long level_bits(int first, int count) {
  unsigned long long bits = 0;
  for (int l = first; l < first + count; ++l) bits |= 1ull << (l % 64);
  return bits;
}

/// What a warp works on.
struct WarpPlace {
  RowBatch batch;
  std::int64_t first_value;
  int begin, tiles;   // tokens of the block
  int lane, row_tile, sharer;
  int block_channel, channel_in_block;
  LaneRow rows[2];

  __device__ int warp_channel() const { return block_channel + channel_in_block; }
  __device__ int row_in_batch(int half) const { return row_tile * 16 + lane / 4 + half * 8; }
};

/// Calls multiply(tile, values of the warp's channels) on all threads for the tiles that have one of the levels in `bits`, staged in
/// shared memory; a tile that streams comes in while the one before is multiplied.
template <class Form, int kRowTiles, class Multiply>
__device__ void for_tiles(const Task& task, const Form& form, const WarpPlace& place, const unsigned long long* masks, unsigned long long bits,
                          std::uint16_t* values, Multiply&& multiply) {
  const auto next_tile = [&](int tile) {
    for (; tile < place.tiles; ++tile)
      for (int t = 0; t < kRowTiles; ++t)
        if ((masks[tile * kRowTiles + t] & bits) != 0) return tile;
    return tile;
  };
  int tile = next_tile(0), buffer = 0;
  if (tile < place.tiles && task.streams) {
    begin_values(task, place.batch, place.first_value, place.begin + tile * kTileTokens, place.block_channel, values);
    commit_copies();
  }
  while (tile < place.tiles) {
    const int following = next_tile(tile + 1);
    if (task.streams) {
      if (following < place.tiles)
        begin_values(task, place.batch, place.first_value, place.begin + following * kTileTokens, place.block_channel, values + (buffer ^ 1) * kPartElements);
      commit_copies();
      await_copies<1>();
      __syncthreads();
    } else {
      stage_values(task, form, place.batch, place.first_value, place.begin + tile * kTileTokens, place.block_channel, values);
      __syncthreads();
    }
    multiply(tile, values + buffer * kPartElements + place.channel_in_block);
    __syncthreads();
    if (task.streams) buffer ^= 1;
    tile = following;
  }
}

/// One or two levels at a time.
template <class Form, int kRowTiles, int kLevels>
__device__ void sweep_levels(const Task& task, const Form& form, const WarpPlace& place, const unsigned long long* masks, unsigned long long anywhere,
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
          max[l][half] = task.view.sums.max[static_cast<std::int64_t>(place.batch.first_row + place.row_in_batch(half)) * settings + level + l];
    Sums<kLevels> sums = {};
    for_tiles<Form, kRowTiles>(task, form, place, masks, bits, values, [&](int tile, const std::uint16_t* own_values) {
      if ((masks[tile * kRowTiles + place.row_tile] & bits) != 0 && place.warp_channel() < task.kv.value_dim)
        multiply_tile<kSharers, kLevels>(task, place.rows, max, place.begin + tile * kTileTokens, level, place.sharer, own_values, place.lane, sums);
    });
#pragma unroll
    for (int l = 0; l < kLevels; ++l) {
      add_sharers<kSharers>(warp % (kRowTiles * kChannelParts) * 32 + place.lane, place.sharer, sums[l], handed);
      if (place.sharer == 0 && level + l < settings && (in_own_rows & level_bits(level + l, 1)) != 0)
        store_partials(task, place.batch, place.row_tile, place.warp_channel(), level + l, place.lane, sums[l]);
    }
  }
}

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
      const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * task.rows.num_rows + row) * settings + level[half];
      float2* to = reinterpret_cast<float2*>(task.partials.sums + at * pitch + place.warp_channel() + place.lane % 4 * 2);
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
__device__ inline void range_of_levels(const LaneTokens& tokens, int half, std::uint32_t settings, std::uint32_t& least, std::uint32_t& most) {
  least = settings, most = 0;
#pragma unroll
  for (int i = half; i < 4; i += 2) {
    const std::uint32_t first = min(tokens.levels[i] & 0xFFFFu, settings), second = min(tokens.levels[i] >> 16, settings);
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
__device__ inline void multiply_mixed(const Task& task, const WarpPlace& place, const LaneTokens& tokens, const std::uint16_t* values, RunSums& run) {
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
__device__ void sweep_runs(const Task& task, const Form& form, const WarpPlace& place, const unsigned long long* masks, unsigned long long in_own_rows,
                           std::uint16_t* values) {
  const int settings = task.view.num_settings;
  const bool works = place.sharer == 0 && place.warp_channel() < task.kv.value_dim;
  const float nothing[kFragments][4] = {};
  if (works)
    for (int level = 0; level < settings; ++level)
      if ((in_own_rows & level_bits(level, 1)) != 0) store_partials(task, place.batch, place.row_tile, place.warp_channel(), level, place.lane, nothing);
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
      for (int i = 0; i < 4; ++i) w[i] = static_cast<int>(level[i % 2]) < settings ? own.weights(i, level[i % 2], run.max[i % 2]) : float2{0, 0};
      multiply_tokens(task, w, own_values + k * kPitch, place.lane, run.sums);
    }
  });
  for (int half = 0; half < 2; ++half) run.turn_to(task, place, half, static_cast<std::uint32_t>(settings));
}

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
  auto* handed = reinterpret_cast<float4*>(values + (task.streams ? 2 : task.num_value_parts) * kPartElements);  // of add_sharers()
  auto* masks = reinterpret_cast<unsigned long long*>(handed + (kSharers > 1 ? kThreads / 2 * kFragments : 0));  // [tiles, kRowTiles]
  for (int i = warp; i < place.tiles * kRowTiles; i += kWarps) {
    const unsigned long long mask = levels_in_tile(task, place.batch, i % kRowTiles, place.begin + i / kRowTiles * kTileTokens, place.lane);
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
  const std::size_t bytes = static_cast<std::size_t>(task.streams ? 2 : task.num_value_parts) * kPartElements * sizeof(std::uint16_t) +
                            (shares ? kThreads / 2 * kFragments * sizeof(float4) : 0) +
                            static_cast<std::size_t>(task.tokens_per_split / kTileTokens) * kRowTiles * 8;
  const auto kernel = sweep_kernel<Form, kRowTiles, kLevels>;
  ATTEST_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  const dim3 grid(task.partials.num_splits, task.rows.num_batches, (task.kv.value_dim + kChannels - 1) / kChannels);
  kernel<<<grid, kThreads, bytes, stream>>>(task, form);
  ATTEST_CUDA_LAUNCHED(sweep_kernel);
}

template <class Form, int kRowTiles>
void launch(const Task& task, const Form& form, cudaStream_t stream) {
  if constexpr (!Form::exact) {
    if (task.view.num_settings != 1) throw std::logic_error("accumulate_levels: values that are not exact come with one setting");
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
