// skip_softmax on the device. Method and sources: skip_softmax.cpp.
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/rank/entry_levels_cuda.h"
#include "kernels/rank/group_policy_cuda.h"
#include "kernels/rank/segments_cuda.h"
#include "kernels/rank/token_levels_cuda.h"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/skip_softmax_options.h"

namespace attest {
namespace {

constexpr int kSkipSoftmaxThreads = 128;

/// Replaces maxima[r][c] = t(c) by t(c) - r(c), and by 0 for the first tile of each sub-sequence. A warp handles one
/// sub-sequence of one row, 32 tiles at a time.
__global__ void __launch_bounds__(kSkipSoftmaxThreads) margins_kernel(RaggedRows<float> maxima, int splits) {
  const int lane = static_cast<int>(threadIdx.x) % 32, row = blockIdx.y;
  const int tiles = maxima.counts[row], stride = min(tiles, splits);
  const int first = (static_cast<int>(blockIdx.x) * kSkipSoftmaxThreads + static_cast<int>(threadIdx.x)) / 32;
  if (first >= stride) return;
  const float lowest = -__int_as_float(0x7F800000);
  float running = lowest;  // maximum of all tiles before these 32
  for (int begin = first; begin < tiles; begin += 32 * stride) {
    const int tile = begin + lane * stride;
    const float own = tile < tiles ? maxima.row(row)[tile] : lowest;
    float maximum = own;  // inclusive prefix maximum over these 32 tiles
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const float below = __shfl_up_sync(0xFFFFFFFFu, maximum, offset);
      if (lane >= offset) maximum = fmaxf(maximum, below);
    }
    const float neighbour = __shfl_up_sync(0xFFFFFFFFu, maximum, 1),
                before = lane == 0 ? running : fmaxf(running, neighbour);
    if (tile < tiles) maxima.row(row)[tile] = tile == first ? 0.0f : own - before;
    running = fmaxf(running, __shfl_sync(0xFFFFFFFFu, maximum, 31));
  }
}

class CudaSkipSoftmax final : public CudaSelector, SkipSoftmaxOptions {
 public:
  explicit CudaSkipSoftmax(const SkipSoftmaxOptions& options) : SkipSoftmaxOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const DeviceRows& rows = chunk.rows;
    auto* levels = chunk.take_levels();
    out.levels = levels;
    out.io = group_costs(chunk, [&](std::int64_t visible) { return bytes(chunk.kv.shape(), visible); });
    const DeviceArena::Scope scope(*chunk.arena);
    const RowCounts counts(chunk, [&](std::int64_t visible) { return tiles(visible); });
    const RaggedRows<float> margins = chunk.take_ragged<float>(counts);
    cuda_segment_maxima(chunk.visible_values(chunk.exact), tile_, margins, chunk.stream);
    const int splits = std::min(splits_, counts.max);
    margins_kernel<<<dim3((splits * 32 + kSkipSoftmaxThreads - 1) / kSkipSoftmaxThreads, rows.num_rows),
                     kSkipSoftmaxThreads, 0, chunk.stream>>>(margins, splits);
    ATTEST_CUDA_LAUNCHED(margins_kernel);
    if (union_) cuda_group_maxima(margins, rows.group, margins.items, chunk.stream);
    auto* peak = chunk.take<float>(static_cast<std::size_t>(rows.num_rows));
    ATTEST_CUDA(cudaMemsetAsync(peak, 0, static_cast<std::size_t>(rows.num_rows) * sizeof(float), chunk.stream));
    const RaggedRows<Level> tile_levels = chunk.take_ragged<Level>(counts);
    const auto deltas = query_settings<double>(chunk, grids, [](double delta, std::int64_t) { return delta; });
    cuda_threshold_levels(margins, peak, deltas, tile_levels.items, chunk.stream);
    cuda_token_levels(rows, tile_levels.items, tile_, nullptr, levels, chunk.stream);
  }
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_skip_softmax(const SkipSoftmaxOptions& options) {
  return std::make_shared<CudaSkipSoftmax>(options);
}

}  // namespace attest
