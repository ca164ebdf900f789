// Building blocks of the pass over the values (sweep_in_runs.cuh): staging a value tile in shared memory, the weights
// of a warp's rows at 16 tokens, and their product.
#pragma once

#include "kernels/attention/level_sums_cuda.h"
#include "kernels/device/async_copy.cuh"
#include "kernels/device/device_rows.h"
#include "kernels/device/octet.cuh"
#include "kernels/device/octet_places.h"
#include "kernels/device/tensor_core.cuh"

namespace attest {

/// Exact values: the form that changes nothing.
struct ExactValues {
  static constexpr bool exact = true;
  __device__ void operator()(const ValuePlace&, float (&)[kOctet]) const {}
};

namespace sweep_tiles {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kChannels = 128;
inline constexpr int kPitch = kChannels + 8;  // 16 bytes of padding avoid bank conflicts
inline constexpr int kPartElements = kTileTokens * kPitch;
inline constexpr int kMaxParts = 3;

/// Channels per warp: the warps with the same rows split the channels of the block.
template <int kRowTiles>
inline constexpr int kWarpChannels = kChannels / (kWarps / kRowTiles);
/// A lane's part of a warp's sums of 16 rows: one mma accumulator per 8 channels.
template <int kRowTiles>
using Sums = float[kWarpChannels<kRowTiles> / 8][4];

struct Task {
  DeviceRows rows;
  DeviceKeyValues kv;
  SweepView view;
  LevelPartials partials;
  int tokens_per_split;
  int num_value_parts;
  int lowest_order;  // parts i of the weight and j of the value are multiplied for i + j <= this
  bool streams;      // values are copied to shared memory unchanged and double-buffered

  __host__ __device__ int buffers() const { return streams ? 2 : num_value_parts; }
};

/// Tokens [begin, end) of a row that this pass reads.
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

/// Mask with bit l % 64 set if one of the 16 rows x 128 tokens has level l. Every lane gets the result.
__device__ inline unsigned long long levels_in_tile(const Task& task, const RowBatch& batch, int row_tile, int first,
                                                    int lane) {
  unsigned long long found = 0;
  for (int r = lane / 16; r < 16; r += 2) {
    const int in_batch = row_tile * 16 + r, token = first + lane % 16 * 8;
    const RowRange range = range_of_row(task, batch, in_batch);
    if (token >= range.end || token + 8 <= range.begin) continue;
    if (!task.view.levels) {
      found = 1;
      continue;
    }
    const uint4 eight = *reinterpret_cast<const uint4*>(task.view.levels.row(batch.first_row + in_batch) + token);
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

/// Stages tokens [first, first + 128) and channels [channel, channel + 128): [parts, kTileTokens, kPitch]; 0 beyond the
/// end.
template <class Form>
__device__ void stage_values(const Task& task, const Form& form, const RowBatch& batch, std::int64_t first_value,
                             int first, int channel, std::uint16_t* shared) {
  constexpr int kOctets = kChannels / kOctet, kAtOnce = kThreads / kOctets, kLoads = 4;
  const int octet = threadIdx.x % kOctets, at = channel + octet * kOctet, dim = task.kv.value_dim;
  for (int pass = 0; pass < kTileTokens / kAtOnce; pass += kLoads) {
    float value[kLoads][kOctet];
    const auto place = [&](int i) {
      const int token = first + static_cast<int>(threadIdx.x) / kOctets + (pass + i) * kAtOnce;
      return OctetPlace{(first_value + token) * dim + at, token < batch.length ? dim - at : 0};
    };
    load_octets(task.kv.type, task.kv.values, dim, place, value);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int slot = static_cast<int>(threadIdx.x) / kOctets + (pass + i) * kAtOnce;
      if (first + slot < batch.length && at < dim) form(ValuePlace{first_value + first + slot, at}, value[i]);
      std::uint16_t* target = shared + slot * kPitch + octet * kOctet;
      for (int part = 0; part < task.num_value_parts; ++part, target += kPartElements)
        *reinterpret_cast<uint4*>(target) = split_leading_bf16(value[i]);
    }
  }
}

/// Starts an asynchronous copy of the same tile; for values of one part that need no change.
__device__ inline void start_value_copy(const Task& task, const RowBatch& batch, std::int64_t first_value, int first,
                                        int channel, std::uint16_t* shared) {
  constexpr int kOctets = kChannels / kOctet, kAtOnce = kThreads / kOctets;
  const int octet = threadIdx.x % kOctets, at = channel + octet * kOctet, dim = task.kv.value_dim;
  const auto* values = static_cast<const std::uint16_t*>(task.kv.values);
  for (int slot = static_cast<int>(threadIdx.x) / kOctets; slot < kTileTokens; slot += kAtOnce) {
    const int token = first + slot;
    const bool wanted = token < batch.length && at < dim;
    copy_async(shared + slot * kPitch + octet * kOctet, wanted ? values + (first_value + token) * dim + at : values,
               wanted ? 16 : 0);
  }
}

/// One of the two rows whose weights a lane computes.
struct LaneRow {
  RowRange range;
  const float* scores = nullptr;
  const Level* levels = nullptr;
};

/// Levels and scores from which a lane computes its weights at 16 tokens. Layout as in the A fragment of mma: element i
/// is row i % 2 and two neighbouring tokens.
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
      const std::uint32_t pair =
          row.levels == nullptr ? 0 : *reinterpret_cast<const std::uint32_t*>(row.levels + token);
      levels[i] = (row.range.contains(token) ? pair & 0xFFFFu : kNone) |
                  (row.range.contains(token + 1) ? pair & 0xFFFF0000u : kNone << 16);
      scores[i] = *reinterpret_cast<const float2*>(row.scores + token);
    }
  }
  /// Whether a token of the lane's row `half` has the level.
  __device__ bool have(int half, std::uint32_t level) const {
    bool any = false;
#pragma unroll
    for (int i = half; i < 4; i += 2) any = any || (levels[i] & 0xFFFFu) == level || levels[i] >> 16 == level;
    return any;
  }
  /// exp(s' - max) for tokens that have the level, 0 for the others.
  __device__ float2 weights(int i, std::uint32_t level, float max) const {
    return {(levels[i] & 0xFFFFu) == level ? __expf(scores[i].x - max) : 0.0f,
            levels[i] >> 16 == level ? __expf(scores[i].y - max) : 0.0f};
  }
};

/// Returns the leading bfloat16 parts of a pair and subtracts them from it.
__device__ inline std::uint32_t split_leading_bf16_pair(float2& x) {
  const __nv_bfloat162 part = __floats2bfloat162_rn(x.x, x.y);
  x.x -= __low2float(part);
  x.y -= __high2float(part);
  return reinterpret_cast<const std::uint32_t&>(part);
}

/// The leading bfloat16 parts of 16 weights by 16 tokens, an A fragment, which is subtracted from them.
__device__ inline uint4 split_leading_weights(float2 (&w)[4]) {
  return {split_leading_bf16_pair(w[0]), split_leading_bf16_pair(w[1]), split_leading_bf16_pair(w[2]),
          split_leading_bf16_pair(w[3])};
}

/// sums += weights * values at 16 tokens. part(i): part i of the weights, asked for in ascending order.
template <int kFragments, class Part>
__device__ void multiply_parts(const Task& task, Part&& part, const std::uint16_t* values, int lane,
                               float (&sums)[kFragments][4]) {
#pragma unroll
  for (int i = 0; i < kMaxParts; ++i) {
    if (i > task.lowest_order) break;
    const uint4 of_weights = part(i);
    const std::uint32_t a[4] = {of_weights.x, of_weights.y, of_weights.z, of_weights.w};
    for (int j = 0; j < task.num_value_parts && i + j <= task.lowest_order; ++j) {
#pragma unroll
      for (int n = 0; n < kFragments; n += 2) {
        std::uint32_t b[4];
        load_b_rows(b, values + j * kPartElements + n * 8, kPitch, lane);
        multiply_add(sums[n], a, b[0], b[1]);
        multiply_add(sums[n + 1], a, b[2], b[3]);
      }
    }
  }
}

template <int kFragments>
__device__ void multiply_tokens(const Task& task, float2 (&w)[4], const std::uint16_t* values, int lane,
                                float (&sums)[kFragments][4]) {
  multiply_parts(
      task, [&](int) { return split_leading_weights(w); }, values, lane, sums);
}

/// Rows, tokens and channels of a warp.
struct WarpPlace {
  RowBatch batch;
  std::int64_t first_value;
  int begin, tiles;  // first token and number of tiles of the block
  int lane, row_tile;
  int block_channel, channel_in_block;
  LaneRow rows[2];

  __device__ int warp_channel() const { return block_channel + channel_in_block; }
  __device__ int row_in_batch(int half) const { return row_tile * 16 + lane / 4 + half * 8; }
};

/// Stages every tile with a nonzero mask in shared memory and calls multiply(tile, values of the warp's channels) on
/// all threads, with a barrier between it and prepare(tile), which is called before. If the task streams, the next tile
/// is copied while the current one is multiplied. masks [tiles, kRowTiles].
template <class Form, int kRowTiles, class Prepare, class Multiply>
__device__ void for_tiles(const Task& task, const Form& form, const WarpPlace& place, const unsigned long long* masks,
                          std::uint16_t* values, Prepare&& prepare, Multiply&& multiply) {
  const auto next_tile = [&](int tile) {
    for (; tile < place.tiles; ++tile)
      for (int t = 0; t < kRowTiles; ++t)
        if (masks[tile * kRowTiles + t] != 0) return tile;
    return tile;
  };
  int tile = next_tile(0), buffer = 0;
  if (tile < place.tiles && task.streams) {
    start_value_copy(task, place.batch, place.first_value, place.begin + tile * kTileTokens, place.block_channel,
                     values);
    commit_copies();
  }
  while (tile < place.tiles) {
    const int following = next_tile(tile + 1);
    if (task.streams) {
      if (following < place.tiles)
        start_value_copy(task, place.batch, place.first_value, place.begin + following * kTileTokens,
                         place.block_channel, values + (buffer ^ 1) * kPartElements);
      commit_copies();
      prepare(tile);
      await_copies<1>();
      __syncthreads();
    } else {
      prepare(tile);
      stage_values(task, form, place.batch, place.first_value, place.begin + tile * kTileTokens, place.block_channel,
                   values);
      __syncthreads();
    }
    multiply(tile, values + buffer * kPartElements + place.channel_in_block);
    __syncthreads();
    if (task.streams) buffer ^= 1;
    tile = following;
  }
}

}  // namespace sweep_tiles

}  // namespace attest
