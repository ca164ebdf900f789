// double_sparsity on the device. Method and sources: double_sparsity.cpp.
#include <algorithm>

#include "kernels/attention/score_tiles.cuh"
#include "kernels/attention/scores_cuda.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/quantize/token_asymmetric_cuda.cuh"
#include "kernels/rank/entry_levels_cuda.h"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/double_sparsity_options.h"

namespace attest {
namespace {

constexpr int kSparsityThreads = 256;

/// One set of channels per query head of a group, or one set for the whole group.
struct ChannelSets {
  const std::uint8_t* chosen = nullptr;  ///< [KV heads on the device, per_kv_head, padded]
  int per_kv_head = 1;
  int padded = 0;

  __device__ const std::uint8_t* set(int kv_head, int head_of_group) const {
    return chosen + (static_cast<std::int64_t>(kv_head) * per_kv_head + head_of_group % per_kv_head) * padded;
  }
};

/// Writes the (min, max) of each key over its chosen channels to ranges [per_kv_head, keys]. `lanes` neighbouring
/// threads share one key.
__global__ void label_ranges_kernel(DeviceKeyValues kv, std::int64_t num_keys, ChannelSets sets, int lanes,
                                    float2* ranges) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kSparsityThreads + threadIdx.x;
  const std::int64_t key = min(thread / lanes, num_keys - 1);  // surplus threads repeat the last key
  for (int s = 0; s < sets.per_kv_head; ++s) {
    const std::uint8_t* chosen = sets.set(static_cast<int>(key / kv.tokens), s);
    float low = __int_as_float(0x7F800000), high = -low;
    for (int channel = static_cast<int>(thread % lanes) * kOctet; channel < kv.head_dim; channel += lanes * kOctet) {
      float x[kOctet];
      load_octet(kv.type, kv.keys, key * kv.head_dim + channel, kv.head_dim - channel, kv.head_dim, x);
#pragma unroll
      for (int i = 0; i < kOctet; ++i)
        if (chosen[channel + i] != 0) {
          low = fminf(low, x[i]);
          high = fmaxf(high, x[i]);
        }
    }
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
      low = fminf(low, __shfl_xor_sync(0xFFFFFFFFu, low, offset));
      high = fmaxf(high, __shfl_xor_sync(0xFFFFFFFFu, high, offset));
    }
    if (thread % lanes == 0 && thread / lanes < num_keys) ranges[s * num_keys + key] = {low, high};
  }
}

/// Writes the labels of the queries, with all other channels 0, to parts [num_parts, rows, padded]. Place p holds row
/// row_of[p]. One warp per row.
__global__ void __launch_bounds__(kSparsityThreads)
    label_queries_kernel(DeviceRows rows, const float* queries, ChannelSets sets, const int* row_of, int bits,
                         int num_parts, std::uint16_t* parts) {
  const int place = blockIdx.x * (kSparsityThreads / 32) + static_cast<int>(threadIdx.x) / 32,
            lane = static_cast<int>(threadIdx.x) % 32;
  if (place >= rows.num_rows) return;
  const int row = row_of[place];
  const std::uint8_t* chosen = sets.set(rows.origins[rows.origin[row]].kv_head, row % rows.group);
  const float* query = queries + static_cast<std::int64_t>(row) * sets.padded;
  float2 range{__int_as_float(0x7F800000), -__int_as_float(0x7F800000)};
  for (int d = lane; d < sets.padded; d += 32)
    if (chosen[d] != 0) range = {fminf(range.x, query[d]), fmaxf(range.y, query[d])};
  range = {warp_reduce(range.x, Smaller{}), warp_reduce(range.y, Larger{})};
  for (int channel = lane * kOctet; channel < sets.padded; channel += 32 * kOctet) {
    float x[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i) x[i] = query[channel + i];
    if (bits < 16) token_dequantise({.bits = bits, .min_range = 0}, range, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      if (chosen[channel + i] == 0) x[i] = 0;
    for (int part = 0; part < num_parts; ++part)
      *reinterpret_cast<uint4*>(parts + (static_cast<std::int64_t>(part) * rows.num_rows + place) * sets.padded +
                                channel) = split_leading_bf16(x);
  }
}

/// Copies row p of `from` to row row_of[p] of `to`.
__global__ void scatter_rows_kernel(DeviceRows rows, const int* row_of, const float* from, float* to) {
  const int token = blockIdx.x * kSparsityThreads + static_cast<int>(threadIdx.x), place = blockIdx.y,
            row = row_of[place];
  if (token < rows.visible[row]) to[row * rows.stride + token] = from[place * rows.stride + token];
}

/// The chunk's rows sorted by query head, so that rows with the same channel set share one pass over the keys.
struct RowsByHead {
  DeviceRows rows;
  const int* row_of = nullptr;  ///< [rows] index of the row in the chunk

  explicit RowsByHead(const CudaChunk& chunk) {
    std::vector<RowBatch> batches;
    std::vector<int> order, visible;
    for (auto first = chunk.batches.begin(); first != chunk.batches.end();) {
      const auto last = std::find_if(first, chunk.batches.end(),
                                     [&](const RowBatch& batch) { return batch.origin != first->origin; });
      const int begin = first->first_row, end = (last - 1)->first_row + (last - 1)->num_rows;
      for (int h = 0; h < chunk.rows.group; ++h)
        for (int row = begin + h; row < end; row += chunk.rows.group) {
          if (row == begin + h || batches.back().num_rows == kMaxBatchRows)
            batches.push_back({.first_row = static_cast<int>(order.size()),
                               .num_rows = 0,
                               .length = 0,
                               .origin = first->origin,
                               .params = h});
          order.push_back(row);
          visible.push_back(chunk.visible[static_cast<std::size_t>(row)]);
          ++batches.back().num_rows;
          batches.back().length = std::max(batches.back().length, visible.back());
        }
      first = last;
    }
    rows = in_batches(chunk, batches);
    rows.visible = chunk.upload(visible);
    row_of = chunk.upload(order);
  }
};

class CudaDoubleSparsity final : public CudaSelector, DoubleSparsityOptions {
 public:
  CudaDoubleSparsity(const DoubleSparsityOptions& options, const ChannelRanking& ranking)
      : DoubleSparsityOptions(options), ranking_(ranking) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const DeviceRows& rows = chunk.rows;
    out.covered = RowCounts(chunk, [](std::int64_t visible) { return visible; });
    auto* estimate = chunk.take_rows<float>();
    auto* levels = chunk.take_levels();
    score(chunk, estimate);
    out.estimate = estimate;
    out.levels = levels;
    const RowValues tokens = chunk.visible_values(estimate);
    out.entry_order = cuda_sort_descending(tokens, *chunk.arena, chunk.stream);
    const auto counts = query_settings<int>(chunk, grids, [](double budget, std::int64_t visible) {
      return static_cast<int>(kept_tokens(budget, visible));
    });
    cuda_top_n_levels(out.entry_order, tokens, counts, chunk.by_tokens(levels), chunk.stream);
    out.io = group_costs(chunk, [&](std::int64_t visible) { return bytes(chunk.kv.shape(), rows.group, visible); });
  }

 private:
  ChannelSets channel_sets(const CudaChunk& chunk) const {
    ChannelSets sets{.per_kv_head = caches(chunk.rows.group), .padded = padded_channels(chunk.kv.head_dim)};
    const int kv_heads = static_cast<int>(chunk.num_keys / chunk.kv.tokens);
    std::vector<std::uint8_t> chosen;
    for (int head = chunk.first_kv_head; head < chunk.first_kv_head + kv_heads; ++head)
      for (int h = 0; h < sets.per_kv_head; ++h) {
        const std::size_t first = chosen.size();
        chosen.resize(first + static_cast<std::size_t>(sets.padded), 0);
        for (std::uint32_t d : ranking_.channels(chunk.layer, head * chunk.rows.group + h, head, chunk.kv.head_dim,
                                                 rank(chunk.kv.head_dim)))
          chosen[first + d] = 1;
      }
    sets.chosen = chunk.upload(chosen);
    return sets;
  }

  void score(const CudaChunk& chunk, float* estimate) const {
    const DeviceArena::Scope scope(*chunk.arena);
    const DeviceRows& rows = chunk.rows;
    const ChannelSets sets = channel_sets(chunk);
    const RowsByHead by_head(chunk);
    const int num_parts = quantises() ? 3 : chunk.queries.num_parts;
    auto* parts =
        chunk.take<std::uint16_t>(static_cast<std::size_t>(num_parts) * static_cast<std::size_t>(rows.num_rows) *
                                  static_cast<std::size_t>(sets.padded));
    constexpr int kRowsAtOnce = kSparsityThreads / 32;
    label_queries_kernel<<<(rows.num_rows + kRowsAtOnce - 1) / kRowsAtOnce, kSparsityThreads, 0, chunk.stream>>>(
        rows, chunk.queries.values, sets, by_head.row_of, bits_, num_parts, parts);
    ATTEST_CUDA_LAUNCHED(label_queries_kernel);
    const QueryParts queries{.parts = parts, .num_parts = num_parts, .rows = rows.num_rows};
    auto* scores = chunk.take_rows<float>();
    if (quantises())
      score_rows(by_head.rows, queries, chunk.kv, label_keys(chunk, sets), {.scores = scores}, chunk.stream);
    else
      cuda_scores(by_head.rows, chunk.kv, queries, chunk.by_tokens(scores), {}, chunk.stream);
    const dim3 grid((rows.max_length + kSparsityThreads - 1) / kSparsityThreads, rows.num_rows);
    scatter_rows_kernel<<<grid, kSparsityThreads, 0, chunk.stream>>>(rows, by_head.row_of, scores, estimate);
    ATTEST_CUDA_LAUNCHED(scatter_rows_kernel);
  }

  TokenAsymmetricKeys label_keys(const CudaChunk& chunk, const ChannelSets& sets) const {
    auto* ranges =
        chunk.take<float2>(static_cast<std::size_t>(sets.per_kv_head) * static_cast<std::size_t>(chunk.num_keys));
    int lanes = 1;
    while (lanes < 32 && lanes * kOctet < chunk.kv.head_dim) lanes *= 2;
    const auto blocks = static_cast<unsigned>((chunk.num_keys * lanes + kSparsityThreads - 1) / kSparsityThreads);
    label_ranges_kernel<<<blocks, kSparsityThreads, 0, chunk.stream>>>(chunk.kv, chunk.num_keys, sets, lanes, ranges);
    ATTEST_CUDA_LAUNCHED(label_ranges_kernel);
    return {.quantizer = quantizer(), .ranges = ranges, .per_params = sets.per_kv_head == 1 ? 0 : chunk.num_keys};
  }

  const ChannelRanking& ranking_;
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_double_sparsity(const DoubleSparsityOptions& options,
                                                              const ChannelRanking& ranking) {
  return std::make_shared<CudaDoubleSparsity>(options, ranking);
}

}  // namespace attest
