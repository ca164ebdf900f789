// Scores of rows against keys in a given form (exact, quantised, ...). A form is an element-wise function of the key.
// All estimates use this product.
//
// A block multiplies up to 64 rows by 128 tokens at a time. It reads keys once, 64 channels at a time, and applies the
// form in float32. The result is split into bfloat16 parts whose sum is exactly the float32 value (octet.cuh). Products
// of parts that are too small to change the last place of a float32 are omitted (kLowestOrder). So the score is that of
// the float32 key, not of a rounded key.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/attention/low_scores.cuh"
#include "kernels/attention/score_targets.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"
#include "kernels/device/octet.cuh"
#include "kernels/device/tensor_core.cuh"

namespace attest {

namespace score_tiles {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;
/// Channels staged at a time. A tile of few rows has little to multiply, so it takes less memory and more blocks are
/// resident, which hide each other's waiting.
template <int kRowTiles>
inline constexpr int kSlice = kRowTiles == 1 ? 32 : 64;
template <int kRowTiles>
inline constexpr int kPitch = kSlice<kRowTiles> + 8;  // 16 bytes of padding avoid bank conflicts
template <int kRowTiles>
inline constexpr int kResidentBlocks = kRowTiles == 1 ? 4 : 2;  // per multiprocessor
inline constexpr int kLowestOrder = 2;                          // parts i and j are multiplied for i + j <= this

struct Task {
  DeviceRows rows;
  DeviceKeyValues kv;
  QueryParts queries;
  ScoreTargets targets;
  int tiles_per_block;
};

template <int kRowTiles>
__host__ __device__ constexpr int part_elements(int count) {
  return count * kPitch<kRowTiles>;
}

/// Stages all channels of the block's queries in shared memory: [slices, parts, kRows, kPitch].
template <int kRowTiles>
__device__ void stage_queries(const Task& task, int first_row, int num_rows, std::uint16_t* shared) {
  constexpr int kRows = 16 * kRowTiles, kChannels = kSlice<kRowTiles>, kOctets = kChannels / kOctet;
  const int padded = padded_channels(task.kv.head_dim), parts = task.queries.num_parts;
  for (int i = threadIdx.x; i < padded / kChannels * parts * kRows * kOctets; i += kThreads) {
    const int octet = i % kOctets, row = i / kOctets % kRows, part = i / (kOctets * kRows) % parts,
              slice = i / (kOctets * kRows * parts);
    uint4 value{0, 0, 0, 0};
    if (row < num_rows)
      value = __ldg(reinterpret_cast<const uint4*>(
          task.queries.parts + (static_cast<std::int64_t>(part) * task.queries.rows + first_row + row) * padded +
          slice * kChannels + octet * kOctet));
    *reinterpret_cast<uint4*>(shared + (slice * parts + part) * part_elements<kRowTiles>(kRows) +
                              row * kPitch<kRowTiles> + octet * kOctet) = value;
  }
}

/// A thread's share of channels [channel, channel + kSlice) of a key tile, prefetched into registers.
template <int kRowTiles, bool kWide>
struct KeySlice {
  static constexpr int kOctets = kSlice<kRowTiles> / kOctet, kAtOnce = kThreads / kOctets,
                       kPasses = kTileTokens / kAtOnce;
  RawOctet<kWide> raw[kPasses];

  static __device__ int slot(int pass) { return static_cast<int>(threadIdx.x) / kOctets + pass * kAtOnce; }
  static __device__ int octet() { return static_cast<int>(threadIdx.x) % kOctets; }

  __device__ void load(const Task& task, const RowBatch& batch, std::int64_t first_key, int first, int channel) {
    const int at = channel + octet() * kOctet, dim = task.kv.head_dim;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const int token = first + slot(pass);
      raw[pass] =
          load_raw<kWide>(task.kv.keys, (first_key + token) * dim + at, token < batch.length ? dim - at : 0, dim);
    }
  }

  /// Applies the form and stages the parts in shared memory: [parts, kTileTokens, kPitch].
  template <class Form>
  __device__ void stage(const Task& task, const Form& form, const RowBatch& batch, std::int64_t first_key, int first,
                        int channel, std::uint16_t* shared) {
    const int at = channel + octet() * kOctet;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const int token = first + slot(pass);
      std::uint16_t* target = shared + slot(pass) * kPitch<kRowTiles> + octet() * kOctet;
      if constexpr (std::is_same_v<Form, ExactKeys> && !kWide)
        if (task.kv.type == ElementType::bfloat16) {  // one part: no split needed
          *reinterpret_cast<uint4*>(target) = raw[pass].words[0];
          continue;
        }
      float key[kOctet], residual[kOctet] = {};
      unpack(task.kv.type, raw[pass], key);
      if (token < batch.length && at < task.kv.head_dim)
        form(KeyPlace{batch.params, token, first_key + token, at}, key, residual);
      for (int part = 0; part < form.num_parts; ++part, target += part_elements<kRowTiles>(kTileTokens))
        *reinterpret_cast<uint4*>(target) = split_leading_bf16(key);
      if constexpr (Form::has_residual)
        for (int part = 0; part < form.num_residual_parts; ++part, target += part_elements<kRowTiles>(kTileTokens))
          *reinterpret_cast<uint4*>(target) = split_leading_bf16(residual);
    }
  }
};

/// sums += queries (16 rows) * keys (kColumns tokens) over one slice, part by part.
template <int kRowTiles, int kColumns>
__device__ void multiply_slice(const std::uint16_t* queries, int query_parts, int query_part, const std::uint16_t* keys,
                               int key_parts, int lane, float (&sums)[kColumns / 8][4]) {
#pragma unroll
  for (int k = 0; k < kSlice<kRowTiles>; k += 16)
    for (int i = 0; i < query_parts; ++i) {
      std::uint32_t a[4];
      load_a(a, queries + i * query_part + k, kPitch<kRowTiles>, lane);
      for (int j = 0; j < key_parts && i + j <= kLowestOrder; ++j) {
        const std::uint16_t* part = keys + j * part_elements<kRowTiles>(kTileTokens) + k;
#pragma unroll
        for (int n = 0; n < kColumns; n += 16) {
          std::uint32_t b[4];
          load_b_columns(b, part + n * kPitch<kRowTiles>, kPitch<kRowTiles>, lane);
          multiply_add(sums[n / 8], a, b[0], b[1]);
          multiply_add(sums[n / 8 + 1], a, b[2], b[3]);
        }
      }
    }
}

/// A row whose sums a lane holds (-1: none). Tokens before `limit` are scored with the form; `visible` ends the row.
struct RowEnd {
  int row, limit, visible;
};

/// Writes the scores of two neighbouring tokens of one row.
__device__ inline void store_pair(const Task& task, const RowEnd& end, int token, const float (&dot)[2], float* to) {
  const std::int64_t at = end.row * task.rows.stride + token;
  float value[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    value[i] = token + i < end.limit     ? score_of(dot[i], task.kv)
               : token + i < end.visible ? task.targets.exact[at + i]
                                         : 0.0f;
  *reinterpret_cast<float2*>(to + at) = {value[0], value[1]};
}

/// Writes the scores from a lane's sums.
template <class Form, int kColumns, int kResidualColumns>
__device__ void store_sums(const Task& task, const RowEnd (&ends)[2], int token, const float (&sums)[kColumns / 8][4],
                           const float (&residual_sums)[kResidualColumns][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (ends[half].row < 0) continue;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
      float dot[2] = {sums[n][2 * half], sums[n][2 * half + 1]};
      store_pair(task, ends[half], token + n * 8, dot, task.targets.scores);
      if constexpr (Form::has_residual) {
        dot[0] += residual_sums[n][2 * half];
        dot[1] += residual_sums[n][2 * half + 1];
        store_pair(task, ends[half], token + n * 8, dot, task.targets.refined);
      }
    }
  }
}

/// Block (x, y, z): up to 16 * kRowTiles rows of batch y, starting at row 16 * kRowTiles * z, against the x-th run of
/// tiles_per_block tiles. The 8 warps split rows and tokens. The next slice is loaded while one is multiplied.
template <class Form, int kRowTiles, bool kWide>
__global__ void __launch_bounds__(kThreads, kResidentBlocks<kRowTiles>) score_kernel(const Task task, const Form form) {
  constexpr int kRows = 16 * kRowTiles, kColumns = kTileTokens * kRowTiles / kWarps, kChannels = kSlice<kRowTiles>;
  constexpr int kQueryPart = part_elements<kRowTiles>(kRows), kKeyPart = part_elements<kRowTiles>(kTileTokens);
  extern __shared__ __align__(16) std::uint16_t shared[];
  const RowBatch batch = task.rows.batches[blockIdx.y];
  const int begin = blockIdx.x * task.tiles_per_block * kTileTokens,
            end = min(batch.length, begin + task.tiles_per_block * kTileTokens);
  const int first_row = batch.first_row + blockIdx.z * kRows,
            num_rows = min(kRows, batch.num_rows - static_cast<int>(blockIdx.z) * kRows);
  if (begin >= end || num_rows <= 0) return;
  const KeyOrigin origin = task.rows.origins[batch.origin];
  const std::int64_t first_key = static_cast<std::int64_t>(origin.kv_head) * task.kv.tokens + origin.first_key;
  const int slices = padded_channels(task.kv.head_dim) / kChannels, query_parts = task.queries.num_parts;
  std::uint16_t* queries = shared;
  std::uint16_t* keys = shared + slices * query_parts * kQueryPart;

  KeySlice<kRowTiles, kWide> next;
  next.load(task, batch, first_key, begin, 0);
  stage_queries<kRowTiles>(task, first_row, num_rows, queries);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row_tile = warp % kRowTiles, column = warp / kRowTiles * kColumns;
  RowEnd ends[2];
  for (int half = 0; half < 2; ++half) {
    const int row = row_tile * 16 + lane / 4 + half * 8;
    ends[half].row = row < num_rows ? first_row + row : -1;
    ends[half].visible = row < num_rows ? task.rows.visible[first_row + row] : 0;
    ends[half].limit =
        row < num_rows && task.targets.limit != nullptr ? task.targets.limit[first_row + row] : ends[half].visible;
  }
  for (int first = begin; first < end; first += kTileTokens) {
    float sums[kColumns / 8][4] = {}, residual_sums[Form::has_residual ? kColumns / 8 : 1][4] = {};
    for (int slice = 0; slice < slices; ++slice) {
      __syncthreads();
      next.stage(task, form, batch, first_key, first, slice * kChannels, keys);
      __syncthreads();
      if (slice + 1 < slices)
        next.load(task, batch, first_key, first, (slice + 1) * kChannels);
      else if (first + kTileTokens < end)
        next.load(task, batch, first_key, first + kTileTokens, 0);
      const std::uint16_t* a = queries + slice * query_parts * kQueryPart + row_tile * 16 * kPitch<kRowTiles>;
      const std::uint16_t* b = keys + column * kPitch<kRowTiles>;
      multiply_slice<kRowTiles, kColumns>(a, query_parts, kQueryPart, b, form.num_parts, lane, sums);
      if constexpr (Form::has_residual)
        multiply_slice<kRowTiles, kColumns>(a, query_parts, kQueryPart, b + form.num_parts * kKeyPart,
                                            form.num_residual_parts, lane, residual_sums);
    }
    store_sums<Form, kColumns>(task, ends, first + column + lane % 4 * 2, sums, residual_sums);
  }
}

/// Shared memory of a block, in bytes.
template <int kRowTiles, class Form>
std::size_t bytes_for(const Task& task, const Form& form) {
  const int slices = padded_channels(task.kv.head_dim) / kSlice<kRowTiles>;
  const int rows = slices * task.queries.num_parts * 16 * kRowTiles,
            keys = (form.num_parts + form.num_residual_parts) * kTileTokens;
  return static_cast<std::size_t>(part_elements<kRowTiles>(rows + keys)) * sizeof(std::uint16_t);
}

template <class Form, int kRowTiles>
void launch(Task task, const Form& form, cudaStream_t stream) {
  // Two waves of resident blocks: queries are staged twice, but rows of uneven length balance better.
  constexpr int kBlocksPerMultiprocessor = 2 * kResidentBlocks<kRowTiles>;
  const std::size_t bytes = bytes_for<kRowTiles>(task, form);
  const auto kernel =
      task.kv.type == ElementType::float32 ? score_kernel<Form, kRowTiles, true> : score_kernel<Form, kRowTiles, false>;
  allow_shared_memory(kernel, bytes);
  const int tiles = (task.rows.max_length + kTileTokens - 1) / kTileTokens;
  const int row_blocks = (task.rows.max_batch_rows + 16 * kRowTiles - 1) / (16 * kRowTiles);
  const std::int64_t all = static_cast<std::int64_t>(tiles) * task.rows.num_batches * row_blocks,
                     wanted = kBlocksPerMultiprocessor * num_multiprocessors();
  task.tiles_per_block = static_cast<int>(std::clamp<std::int64_t>((all + wanted - 1) / wanted, 1, 16));
  const dim3 grid((tiles + task.tiles_per_block - 1) / task.tiles_per_block, task.rows.num_batches, row_blocks);
  kernel<<<grid, kThreads, bytes, stream>>>(task, form);
  ATTEST_CUDA_LAUNCHED(score_kernel);
}

}  // namespace score_tiles

/// Scores all rows with keys in the given form and fills `targets`. A form is a plain struct with
///   num_parts           bfloat16 parts of its keys: 3, or fewer if fewer are exact
///   has_residual        whether it has residuals
///   num_residual_parts  bfloat16 parts of its residuals
///   operator()(place, key[8], residual[8])  replaces eight exact key elements by the form's keys and residuals
template <class Form>
void score_rows(const DeviceRows& rows, const QueryParts& queries, const DeviceKeyValues& kv, const Form& form,
                const ScoreTargets& targets, cudaStream_t stream) {
  const score_tiles::Task task{rows, kv, queries, targets, 1};
  if (rows.num_batches == 0) return;
  if (rows.max_batch_rows <= 16 || score_tiles::bytes_for<4>(task, form) > largest_shared_memory())
    score_tiles::launch<Form, 1>(task, form, stream);
  else
    score_tiles::launch<Form, 4>(task, form, stream);
  if (targets.low != nullptr) low_scores(rows, queries, kv, form, targets, stream);
}

}  // namespace attest
