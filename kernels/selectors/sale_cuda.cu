// sale on the device. Method and sources: sale.cpp.

#include "kernels/attention/mean_value_cuda.h"
#include "kernels/attention/score_tiles.cuh"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/quantize/sale_int4_cuda.cuh"
#include "kernels/rank/segments_cuda.h"
#include "kernels/rank/token_levels_cuda.h"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/sale_options.h"

namespace attest {
namespace {

constexpr int kSaleThreads = 256;
constexpr int kBoundaryThreads = 128;
constexpr int kBlock = kSaleBlock;

/// Per row: scale of the query's codes, and the exact dot product of query and mean key.
struct QueryScales {
  float* scale;     // [rows]
  double* of_mean;  // [rows]
};

/// One warp per row. Writes codes [rows, padded].
__global__ void __launch_bounds__(kSaleThreads)
    quantize_queries_kernel(DeviceRows rows, const float* queries, DeviceMatrix<const float> means,
                            std::uint16_t* codes, QueryScales out) {
  const int padded = static_cast<int>(means.stride);
  const int row = blockIdx.x * (kSaleThreads / 32) + static_cast<int>(threadIdx.x) / 32,
            lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= rows.num_rows) return;
  const float* query = queries + static_cast<std::int64_t>(row) * padded;
  const float* mean = means.row(row / rows.group);
  float maximum = 0;
  double of_mean = 0;
  for (int d = lane; d < padded; d += 32) {
    maximum = fmaxf(maximum, fabsf(query[d]));
    of_mean += static_cast<double>(query[d]) * mean[d];
  }
  maximum = warp_reduce(maximum, Larger{});
  of_mean = warp_reduce(of_mean, Plus{});
  for (int d = lane; d < padded; d += 32)
    codes[static_cast<std::int64_t>(row) * padded + d] =
        __bfloat16_as_ushort(__float2bfloat16_rn(sale_code(query[d], maximum)));
  if (lane != 0) return;
  out.scale[row] = sale_scale(maximum);
  out.of_mean[row] = of_mean;
}

/// Turns dot products of codes into estimates, in place.
__global__ void sale_estimate_kernel(DeviceRows rows, DeviceKeyValues kv, QueryScales queries,
                                     DeviceMatrix<const float> absmax, float* estimate) {
  const int token = blockIdx.x * kSaleThreads + static_cast<int>(threadIdx.x), row = blockIdx.y;
  if (token >= rows.visible[row]) return;
  const double key_scale = sale_scale(absmax.row(row / rows.group)[token]);
  float& score = estimate[row * rows.stride + token];
  score = score_of(static_cast<float>(queries.scale[row] * key_scale * score + queries.of_mean[row]), kv);
}

/// Inputs and results for the sink and local blocks, [rows] each.
struct SinkLocalMass {
  const int* first_local;  ///< first token of the local blocks; 0 if the row keeps all keys
  double* log_mass;        ///< ln of the sum of exp(s) over sink and local blocks
};

/// Fills boundary.log_mass. One thread block per row.
__global__ void __launch_bounds__(kBoundaryThreads)
    sink_local_mass_kernel(DeviceRows rows, const float* scores, SinkLocalMass boundary) {
  __shared__ double shared[32];
  const int row = blockIdx.x, length = rows.visible[row], local = boundary.first_local[row];
  if (local == 0) return;
  const int sink = min(length, kBlock), count = sink + max(0, length - local);
  const auto score = [&](int i) -> double { return scores[row * rows.stride + (i < sink ? i : local + i - sink)]; };
  double max = score(0), mass = 0;
  for (int i = threadIdx.x; i < count; i += kBoundaryThreads) max = fmax(max, score(i));
  max = block_reduce(max, shared, Larger{});
  for (int i = threadIdx.x; i < count; i += kBoundaryThreads) mass += exp(score(i) - max);
  mass = block_reduce(mass, shared, Plus{});
  if (threadIdx.x == 0) boundary.log_mass[row] = max + log(mass);
}

/// Entry levels of the blocks of 32 keys, given the largest estimate of each.
__global__ void block_levels_kernel(RowValues best, SinkLocalMass boundary, QuerySettings<double> deltas,
                                    DeviceMatrix<Level> levels) {
  const int block = blockIdx.x * kSaleThreads + static_cast<int>(threadIdx.x), row = blockIdx.y;
  if (block >= best.counts[row]) return;
  int level = 0;
  if (block > 0 && block * kBlock < boundary.first_local[row]) {
    const double value = best.row(row)[block];
    const double* own = deltas.of_row(row);
    while (level < deltas.count && !(value > boundary.log_mass[row] - own[level])) ++level;
  }
  levels.row(row)[block] = static_cast<Level>(level);
}

class CudaSale final : public CudaSelector, SaleOptions {
 public:
  explicit CudaSale(const SaleOptions& options) : SaleOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    out.covered = RowCounts(chunk, [](std::int64_t visible) { return visible; });
    auto* estimate = chunk.take_rows<float>();
    auto* levels = chunk.take_levels();
    score(chunk, estimate);
    rule(chunk, grids, estimate, levels);
    out.estimate = estimate;
    out.levels = levels;
    out.io = group_costs(chunk, [&](std::int64_t visible) { return bytes(chunk.kv.shape(), visible); });
  }

 private:
  /// The mean key, and with it every code, depends on the number of visible keys, so each query needs its own pass over
  /// the keys.
  void score(const CudaChunk& chunk, float* estimate) const {
    const DeviceArena::Scope scope(*chunk.arena);
    const int group = chunk.rows.group, padded = padded_channels(chunk.kv.head_dim);
    const auto num_rows = static_cast<std::size_t>(chunk.rows.num_rows),
               queries = num_rows / static_cast<std::size_t>(group);
    const DeviceMatrix<float> means{chunk.take<float>(queries * static_cast<std::size_t>(padded)), padded};
    const DeviceMatrix<float> absmax =
        chunk.by_tokens(chunk.take<float>(queries * static_cast<std::size_t>(chunk.rows.stride)));
    auto* codes = chunk.take<std::uint16_t>(num_rows * static_cast<std::size_t>(padded));
    const QueryScales scales{chunk.take<float>(num_rows), chunk.take<double>(num_rows)};
    cuda_visible_means(chunk.rows, chunk.kv.all_keys(), means, *chunk.arena, chunk.stream);
    cuda_sale_key_ranges(key_scale_, chunk.rows, chunk.kv, means, absmax, chunk.stream);
    constexpr int kRowsAtOnce = kSaleThreads / 32;
    quantize_queries_kernel<<<(chunk.rows.num_rows + kRowsAtOnce - 1) / kRowsAtOnce, kSaleThreads, 0, chunk.stream>>>(
        chunk.rows, chunk.queries.values, means, codes, scales);
    ATTEST_CUDA_LAUNCHED(quantize_queries_kernel);

    std::vector<RowBatch> batches = cut_batches(chunk, [group](int row) { return row / group; });
    for (RowBatch& batch : batches) batch.params = batch.first_row / group;
    const SaleKeys form{.means = means, .absmax = absmax};
    score_rows(in_batches(chunk, batches), {.parts = codes, .num_parts = 1, .rows = chunk.rows.num_rows},
               without_score_transform(chunk.kv), form, {.scores = estimate}, chunk.stream);
    const dim3 grid((chunk.rows.max_length + kSaleThreads - 1) / kSaleThreads, chunk.rows.num_rows);
    sale_estimate_kernel<<<grid, kSaleThreads, 0, chunk.stream>>>(chunk.rows, chunk.kv, scales, absmax, estimate);
    ATTEST_CUDA_LAUNCHED(sale_estimate_kernel);
  }

  void rule(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const float* estimate, Level* levels) const {
    const DeviceArena::Scope scope(*chunk.arena);
    const DeviceRows& rows = chunk.rows;
    const RowCounts counts(chunk, [](std::int64_t visible) { return blocks(visible); });
    const RowCounts local(chunk, [&](std::int64_t visible) { return keeps_all(visible) ? 0 : first_local(visible); });
    const RaggedRows<float> best = chunk.take_ragged<float>(counts);
    const RaggedRows<Level> block_levels = chunk.take_ragged<Level>(counts);
    const SinkLocalMass boundary{local.device, chunk.take<double>(static_cast<std::size_t>(rows.num_rows))};
    cuda_segment_maxima(chunk.visible_values(estimate), kBlock, best, chunk.stream);
    sink_local_mass_kernel<<<rows.num_rows, kBoundaryThreads, 0, chunk.stream>>>(rows, chunk.exact, boundary);
    ATTEST_CUDA_LAUNCHED(sink_local_mass_kernel);
    const auto deltas = query_settings<double>(chunk, grids, [](double delta, std::int64_t) { return delta; });
    const dim3 grid((counts.max + kSaleThreads - 1) / kSaleThreads, rows.num_rows);
    block_levels_kernel<<<grid, kSaleThreads, 0, chunk.stream>>>(best, boundary, deltas, block_levels.items);
    ATTEST_CUDA_LAUNCHED(block_levels_kernel);
    cuda_token_levels(rows, block_levels.items, kBlock, nullptr, levels, chunk.stream);
  }
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_sale(const SaleOptions& options) {
  return std::make_shared<CudaSale>(options);
}

}  // namespace attest
