// The one pass over the values for every setting of a sweep: sums of exp(s' - max) v' of every row, apart by entry level.
//
// A block takes up to 64 rows, a range of tokens and 128 channels, and goes through the levels that occur there: for one or two
// levels at a time the weights of their tokens (zero for all others) meet the values on tensor cores, and 16 tokens at which none
// of 16 rows has the level are passed over. So a sweep costs what the levels that meet in one place cost, not what the grid has
// settings. Weights and values are split into bfloat16 parts (octet.cuh); values that are bfloat16 as they are come in while the
// tile before is multiplied. Warps that share rows and channels take tokens in turn, and their sums, like those of the ranges
// later, are added up in a fixed order.
#pragma once

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
#pragma unroll
      for (int i = 0; i < kMostParts; ++i) {
        if (i > task.lowest_order) break;
        const std::uint32_t a[4] = {take_pair(w[0]), take_pair(w[1]), take_pair(w[2]), take_pair(w[3])};
        for (int j = 0; j < task.num_value_parts && i + j <= task.lowest_order; ++j) {
#pragma unroll
          for (int n = 0; n < kWarpChannels; n += 16) {
            std::uint32_t b[4];
            load_b_rows(b, values + j * kPartElements + k * kPitch + n, kPitch, lane);
            multiply_add(sums[l][n / 8], a, b[0], b[1]);
            multiply_add(sums[l][n / 8 + 1], a, b[2], b[3]);
          }
        }
      }
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

template <class Form, int kRowTiles, int kLevels>
__global__ void __launch_bounds__(kThreads, 2) sweep_kernel(const Task task, const Form form) {
  constexpr int kSharers = kWarps / kRowTiles / kChannelParts;  // warps with the same rows and channels
  extern __shared__ __align__(16) std::uint16_t shared[];
  const RowBatch batch = task.rows.batches[blockIdx.y];
  const int begin = blockIdx.x * task.tokens_per_split, end = min(batch.length, begin + task.tokens_per_split);
  if (begin >= end) return;
  const KeyOrigin origin = task.rows.origins[batch.origin];
  const std::int64_t first_value = static_cast<std::int64_t>(origin.kv_head) * task.kv.tokens + origin.first_key;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row_tile = warp % kRowTiles, channel_part = warp / kRowTiles % kChannelParts, sharer = warp / (kRowTiles * kChannelParts);
  const int tiles = (end - begin + kTileTokens - 1) / kTileTokens, settings = task.view.num_settings;
  const int block_channel = blockIdx.z * kChannels, warp_channel = block_channel + channel_part * kWarpChannels;

  std::uint16_t* values = shared;
  auto* handed = reinterpret_cast<float4*>(values + (task.streams ? 2 : task.num_value_parts) * kPartElements);  // of add_sharers()
  auto* masks = reinterpret_cast<unsigned long long*>(handed + (kSharers > 1 ? kThreads / 2 * kFragments : 0));  // [tiles, kRowTiles]
  for (int i = warp; i < tiles * kRowTiles; i += kWarps) {
    const unsigned long long mask = levels_in_tile(task, batch, i % kRowTiles, begin + i / kRowTiles * kTileTokens, lane);
    if (lane == 0) masks[i] = mask;
  }
  __syncthreads();
  unsigned long long anywhere = 0, in_own_rows = 0;
  for (int i = 0; i < tiles * kRowTiles; ++i) {
    anywhere |= masks[i];
    if (i % kRowTiles == row_tile) in_own_rows |= masks[i];
  }
  LaneRow rows[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int in_batch = row_tile * 16 + lane / 4 + half * 8;
    rows[half].range = range_of_row(task, batch, in_batch);
    if (in_batch >= batch.num_rows) continue;
    rows[half].scores = task.view.scores + (batch.first_row + in_batch) * task.rows.stride;
    if (task.view.levels != nullptr) rows[half].levels = task.view.levels + (batch.first_row + in_batch) * task.rows.stride;
  }

  for (int level = 0; level < settings; level += kLevels) {
    const unsigned long long bits = level_bits(level, min(kLevels, settings - level));
    if ((anywhere & bits) == 0) continue;
    float max[kLevels][2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int in_batch = row_tile * 16 + lane / 4 + half * 8;
#pragma unroll
      for (int l = 0; l < kLevels; ++l)
        if (in_batch < batch.num_rows && level + l < settings)
          max[l][half] = task.view.sums.max[static_cast<std::int64_t>(batch.first_row + in_batch) * settings + level + l];
    }
    Sums<kLevels> sums = {};
    const auto next_tile = [&](int tile) {
      for (; tile < tiles; ++tile)
        for (int t = 0; t < kRowTiles; ++t)
          if ((masks[tile * kRowTiles + t] & bits) != 0) return tile;
      return tile;
    };
    int tile = next_tile(0), buffer = 0;
    if (task.streams) {
      begin_values(task, batch, first_value, begin + tile * kTileTokens, block_channel, values);
      commit_copies();
    }
    while (tile < tiles) {
      const int following = next_tile(tile + 1);
      if (task.streams) {
        if (following < tiles)
          begin_values(task, batch, first_value, begin + following * kTileTokens, block_channel, values + (buffer ^ 1) * kPartElements);
        commit_copies();
        await_copies<1>();
        __syncthreads();
      } else {
        stage_values(task, form, batch, first_value, begin + tile * kTileTokens, block_channel, values);
        __syncthreads();
      }
      if ((masks[tile * kRowTiles + row_tile] & bits) != 0 && warp_channel < task.kv.value_dim)
        multiply_tile<kSharers, kLevels>(task, rows, max, begin + tile * kTileTokens, level, sharer,
                                         values + buffer * kPartElements + channel_part * kWarpChannels, lane, sums);
      __syncthreads();
      if (task.streams) buffer ^= 1;
      tile = following;
    }
#pragma unroll
    for (int l = 0; l < kLevels; ++l) {
      add_sharers<kSharers>(warp % (kRowTiles * kChannelParts) * 32 + lane, sharer, sums[l], handed);
      if (sharer == 0 && level + l < settings && (in_own_rows & level_bits(level + l, 1)) != 0)
        store_partials(task, batch, row_tile, warp_channel, level + l, lane, sums[l]);
    }
  }
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
  task.view.num_settings == 1 ? launch<Form, kRowTiles, 1>(task, form, stream) : launch<Form, kRowTiles, 2>(task, form, stream);
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
