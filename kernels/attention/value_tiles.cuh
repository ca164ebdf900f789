// The one pass over the values for every setting of a sweep: sums of exp(s' - max) v' of every row, apart by entry level.
//
// A block takes up to 64 rows, a range of tokens and 128 channels, and goes through the levels that occur there: for one level
// at a time the weights of its tokens (zero for all others) meet the values on tensor cores, and 16 tokens at which none of 16
// rows has the level are passed over. So a sweep costs what the levels that meet in one place cost, not what the grid has
// settings. Weights and values are split into bfloat16 parts (octet.cuh); warps that share rows take tokens in turn, and their
// sums, like those of the ranges later, are added up in a fixed order.
#pragma once

#include "kernels/attention/device_rows.h"
#include "kernels/attention/level_accumulate.h"
#include "kernels/attention/level_sums.h"
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
inline constexpr int kFragments = kChannels / 8;

struct Task {
  DeviceRows rows;
  DeviceKeyValues kv;
  LevelView view;
  LevelPartials partials;
  int tokens_per_split;
  int num_value_parts;
  int lowest_order;  // parts i of the weight and j of the value are multiplied for i + j <= this
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

/// One of the two rows whose weights a lane makes.
struct LaneRow {
  RowRange range;
  const float* scores = nullptr;
  const Level* levels = nullptr;

  /// Bits 0 and 1: tokens token and token + 1 are of the level.
  __device__ unsigned of_level(int token, int level) const {
    if (range.end <= token || token + 2 <= range.begin) return 0;
    unsigned both = (range.contains(token) ? 1u : 0u) | (range.contains(token + 1) ? 2u : 0u);
    if (levels == nullptr) return level == 0 ? both : 0;
    const std::uint32_t pair = *reinterpret_cast<const std::uint32_t*>(levels + token);
    if (static_cast<int>(pair & 0xFFFFu) != level) both &= ~1u;
    if (static_cast<int>(pair >> 16) != level) both &= ~2u;
    return both;
  }
  /// exp(s' - max) of the tokens in `wanted`, 0 for the others.
  __device__ float2 weights(int token, unsigned wanted, float max) const {
    if (wanted == 0) return {0, 0};
    const float2 s = *reinterpret_cast<const float2*>(scores + token);
    return {(wanted & 1u) != 0 ? __expf(s.x - max) : 0.0f, (wanted & 2u) != 0 ? __expf(s.y - max) : 0.0f};
  }
};

/// Takes the leading bfloat16 parts off a pair.
__device__ inline std::uint32_t take_pair(float2& x) {
  const __nv_bfloat162 part = __floats2bfloat162_rn(x.x, x.y);
  x.x -= __low2float(part);
  x.y -= __high2float(part);
  return reinterpret_cast<const std::uint32_t&>(part);
}

/// sums += weights (16 rows) * values (kChannels channels) over every kSharers-th 16 tokens of the tile at token `first`.
template <int kSharers>
__device__ void multiply_tile(const Task& task, const LaneRow (&rows)[2], const float (&max)[2], int first, int level, int sharer,
                              const std::uint16_t* values, int lane, float (&sums)[kFragments][4]) {
#pragma unroll 2
  for (int k = sharer * 16; k < kTileTokens; k += kSharers * 16) {
    const int token = first + k + lane % 4 * 2;
    const unsigned wanted[4] = {rows[0].of_level(token, level), rows[1].of_level(token, level), rows[0].of_level(token + 8, level),
                                rows[1].of_level(token + 8, level)};
    if (!__any_sync(0xFFFFFFFFu, (wanted[0] | wanted[1] | wanted[2] | wanted[3]) != 0)) continue;
    float2 w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = rows[i % 2].weights(token + i / 2 * 8, wanted[i], max[i % 2]);
    for (int i = 0; i <= task.lowest_order; ++i) {
      const std::uint32_t a[4] = {take_pair(w[0]), take_pair(w[1]), take_pair(w[2]), take_pair(w[3])};
      for (int j = 0; j < task.num_value_parts && i + j <= task.lowest_order; ++j) {
#pragma unroll
        for (int n = 0; n < kChannels; n += 16) {
          std::uint32_t b[4];
          load_b_rows(b, values + j * kPartElements + k * kPitch + n, kPitch, lane);
          multiply_add(sums[n / 8], a, b[0], b[1]);
          multiply_add(sums[n / 8 + 1], a, b[2], b[3]);
        }
      }
    }
  }
}

/// Adds the sums of the warps that share rows, into those of the first: halves of the sharers in turn. `shared` holds half of
/// the block's sums.
template <int kRowTiles>
__device__ void add_sharers(int row_tile, int sharer, int lane, float (&sums)[kFragments][4], float4* shared) {
#pragma unroll
  for (int half = kWarps / kRowTiles / 2; half > 0; half /= 2) {
    float4* slot = shared + (sharer % half * kRowTiles + row_tile) * kFragments * 32 + lane;
    __syncthreads();
    if (sharer >= half && sharer < 2 * half)
#pragma unroll
      for (int n = 0; n < kFragments; ++n) slot[n * 32] = {sums[n][0], sums[n][1], sums[n][2], sums[n][3]};
    __syncthreads();
    if (sharer >= half) continue;
#pragma unroll
    for (int n = 0; n < kFragments; ++n) {
      const float4 other = slot[n * 32];
      sums[n][0] += other.x, sums[n][1] += other.y, sums[n][2] += other.z, sums[n][3] += other.w;
    }
  }
}

/// Writes a warp's sums of 16 rows and 128 channels at one level.
__device__ inline void store_partials(const Task& task, const RowBatch& batch, int row_tile, int level, int lane, const float (&sums)[kFragments][4]) {
  const int pitch = task.partials.pitch, settings = task.view.num_settings;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int in_batch = row_tile * 16 + lane / 4 + half * 8;
    if (in_batch >= batch.num_rows) continue;
    const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * task.rows.num_rows + batch.first_row + in_batch) * settings + level;
    if (lane % 4 == 0 && blockIdx.z == 0) task.partials.present[at] = 1;
#pragma unroll
    for (int n = 0; n < kFragments; ++n) {
      const int channel = blockIdx.z * kChannels + n * 8 + lane % 4 * 2;
      if (channel < pitch) *reinterpret_cast<float2*>(task.partials.sums + at * pitch + channel) = {sums[n][2 * half], sums[n][2 * half + 1]};
    }
  }
}

template <class Form, int kRowTiles>
__global__ void __launch_bounds__(kThreads, 2) sweep_kernel(const Task task, const Form form) {
  constexpr int kSharers = kWarps / kRowTiles;  // warps with the same rows
  extern __shared__ __align__(16) std::uint16_t shared[];
  const RowBatch batch = task.rows.batches[blockIdx.y];
  const int begin = blockIdx.x * task.tokens_per_split, end = min(batch.length, begin + task.tokens_per_split);
  if (begin >= end) return;
  const KeyOrigin origin = task.rows.origins[batch.origin];
  const std::int64_t first_value = static_cast<std::int64_t>(origin.kv_head) * task.kv.tokens + origin.first_key;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, row_tile = warp % kRowTiles, sharer = warp / kRowTiles;
  const int tiles = (end - begin + kTileTokens - 1) / kTileTokens, settings = task.view.num_settings;

  std::uint16_t* values = shared;
  auto* handed = reinterpret_cast<float4*>(values + task.num_value_parts * kPartElements);       // of add_sharers()
  auto* masks = reinterpret_cast<unsigned long long*>(handed + kWarps / 2 * kFragments * 32);    // [tiles, kRowTiles]
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

  int staged = -1;
  for (int level = 0; level < settings; ++level) {
    const unsigned long long bit = 1ull << (level % 64);
    if ((anywhere & bit) == 0) continue;
    float max[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int in_batch = row_tile * 16 + lane / 4 + half * 8;
      if (in_batch < batch.num_rows) max[half] = task.view.sums.max[static_cast<std::int64_t>(batch.first_row + in_batch) * settings + level];
    }
    float sums[kFragments][4] = {};
    for (int tile = 0; tile < tiles; ++tile) {
      unsigned long long wanted = 0;
      for (int t = 0; t < kRowTiles; ++t) wanted |= masks[tile * kRowTiles + t];
      if ((wanted & bit) == 0) continue;
      if (staged != tile) {
        __syncthreads();
        stage_values(task, form, batch, first_value, begin + tile * kTileTokens, blockIdx.z * kChannels, values);
        __syncthreads();
        staged = tile;
      }
      if ((masks[tile * kRowTiles + row_tile] & bit) != 0)
        multiply_tile<kSharers>(task, rows, max, begin + tile * kTileTokens, level, sharer, values, lane, sums);
    }
    add_sharers<kRowTiles>(row_tile, sharer, lane, sums, handed);
    if (sharer == 0 && (in_own_rows & bit) != 0) store_partials(task, batch, row_tile, level, lane, sums);
  }
}

template <class Form, int kRowTiles>
void launch(const Task& task, const Form& form, cudaStream_t stream) {
  const std::size_t bytes = static_cast<std::size_t>(task.num_value_parts) * kPartElements * sizeof(std::uint16_t) +
                            kWarps / 2 * kFragments * 32 * sizeof(float4) + static_cast<std::size_t>(task.tokens_per_split / kTileTokens) * kRowTiles * 8;
  ATTEST_CUDA(cudaFuncSetAttribute(sweep_kernel<Form, kRowTiles>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  const dim3 grid(task.partials.num_splits, task.rows.num_batches, (task.kv.value_dim + kChannels - 1) / kChannels);
  sweep_kernel<Form, kRowTiles><<<grid, kThreads, bytes, stream>>>(task, form);
  ATTEST_CUDA_LAUNCHED(sweep_kernel);
}

}  // namespace value_tiles

/// Fills partials (present must be 0) for the tokens of `view` with values in the form given: a plain struct with
/// `exact` and operator()(place, value[8]).
template <class Form>
void accumulate_levels(const DeviceRows& rows, const DeviceKeyValues& kv, const LevelView& view, const Form& form,
                       const LevelPartials& partials, cudaStream_t stream) {
  const int order = kv.type == ElementType::float32 ? 2 : 1;
  const int value_parts = Form::exact && parts_of(kv.type) < order + 1 ? parts_of(kv.type) : order + 1;
  const value_tiles::Task task{rows, kv, view, partials, tokens_per_split(rows.longest), value_parts, order};
  if (rows.num_batches == 0) return;
  if (rows.max_batch_rows <= 16)
    value_tiles::launch<Form, 1>(task, form, stream);
  else
    value_tiles::launch<Form, 4>(task, form, stream);
}

}  // namespace attest
