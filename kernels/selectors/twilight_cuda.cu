// twilight on the device. Method and sources: twilight.cpp.

#include "kernels/attention/page_scores_cuda.h"
#include "kernels/attention/score_tiles.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/quantize/ranges_cuda.h"
#include "kernels/quantize/token_asymmetric_cuda.cuh"
#include "kernels/rank/entry_levels_cuda.h"
#include "kernels/rank/rank_correlation_cuda.h"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/rank/token_levels_cuda.h"
#include "kernels/rank/top_p_bisection_cuda.h"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/twilight_options.h"

namespace attest {
namespace {

constexpr int kTwilightThreads = 256;

/// flags[r][i] = 1 if item i is among the first n[r] items of the order, else 0.
__global__ void flag_first_kernel(RowOrder order, const int* n, RaggedRows<std::uint8_t> flags) {
  const int place = blockIdx.x * kTwilightThreads + static_cast<int>(threadIdx.x), row = blockIdx.y;
  if (place < flags.counts[row]) flags.row(row)[order(row, place)] = place < n[row] ? 1 : 0;
}

/// Counts the tokens that are in the base set of any head of a group: kept [groups]. One thread block per group.
__global__ void __launch_bounds__(kTwilightThreads)
    base_kept_kernel(DeviceRows rows, RaggedRows<const std::uint8_t> flags, int page, int* kept) {
  __shared__ int total;
  const int first = blockIdx.x * rows.group, visible = rows.visible[first];
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  int tokens = 0;
  for (int i = threadIdx.x; i < flags.counts[first]; i += kTwilightThreads) {
    bool any = false;
    for (int h = 0; h < rows.group; ++h) any |= flags.row(first + h)[i] != 0;
    if (any) tokens += min(visible, (i + 1) * page) - i * page;
  }
  atomicAdd(&total, tokens);
  __syncthreads();
  if (threadIdx.x == 0) kept[blockIdx.x] = total;
}

class CudaTwilight final : public CudaSelector, TwilightOptions {
 public:
  explicit CudaTwilight(const TwilightOptions& options) : TwilightOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const DeviceRows& rows = chunk.rows;
    out.covered = RowCounts(chunk, [](std::int64_t visible) { return visible; });
    auto* estimate = chunk.take_rows<float>();
    float* low = chunk.take_low();
    score(chunk, estimate, low);
    out.estimate_low = low;
    out.estimate = estimate;
    if (estimated_weights_) out.read_scores = estimate;
    RowValues tokens = chunk.visible_values(estimate);
    out.entry_order = cuda_sort_descending(tokens, *chunk.arena, chunk.stream);
    out.io = group_costs(chunk, [&](std::int64_t visible) {
      IoCost cost = bytes(chunk.kv.shape(), visible);
      if (!quest_base_) cost.fixed += static_cast<double>(visible) * bytes_per_base(chunk.kv.head_dim);
      return cost;
    });
    auto* base_kept = chunk.take<int>(static_cast<std::size_t>(rows.num_rows / rows.group));
    Level* levels = chunk.take_levels();
    out.levels = levels;

    RowOrder order = out.entry_order;
    if (quest_base_) {
      auto* kept = chunk.take<int>(static_cast<std::size_t>(rows.num_rows));
      order = base_order(chunk, tokens, order, kept, base_kept);
      tokens.counts = kept;
      out.base_kept = base_kept;
      out.bytes_per_base = bytes_per_base(chunk.kv.head_dim);
    }
    out.level_order = {order, tokens.counts};
    const DeviceArena::Scope scope(*chunk.arena);
    cuda_fill_levels(rows, static_cast<Level>(grids.front().values.size()), levels, chunk.stream);
    const auto shares = query_settings<double>(chunk, grids, [](double p, std::int64_t) { return p; });
    if (reference_)
      cuda_top_p_bisection_levels(order, tokens, shares, chunk.by_tokens(levels), *chunk.arena, chunk.stream);
    else
      cuda_top_p_levels(order, tokens, ItemMass::exponential, shares, chunk.by_tokens(levels), chunk.stream);
  }

 private:
  static void score(const CudaChunk& chunk, float* estimate, float* low) {
    const DeviceArena::Scope scope(*chunk.arena);
    auto* ranges = chunk.take<float2>(static_cast<std::size_t>(chunk.num_keys));
    cuda_channel_ranges(chunk.kv.all_keys(), chunk.num_keys, chunk.kv.head_dim, ranges, chunk.stream);
    score_rows(chunk.rows, chunk.queries, chunk.kv, TokenAsymmetricKeys{.quantizer = kKeyQuantizer, .ranges = ranges},
               {.scores = estimate, .low = low}, chunk.stream);
  }

  /// The tokens of the base set in descending estimate. Writes their number to kept [rows], and the number of tokens in
  /// the union over each group to base_kept [groups].
  RowOrder base_order(const CudaChunk& chunk, const RowValues& tokens, const RowOrder& order, int* kept,
                      int* base_kept) const {
    const RowCounts counts(chunk, [&](std::int64_t visible) { return pages(visible); });
    const RowCounts wanted(chunk, [&](std::int64_t visible) { return base_pages(visible); });
    const RaggedRows<float> scores = chunk.take_ragged<float>(counts);
    const RaggedRows<std::uint8_t> flags = chunk.take_ragged<std::uint8_t>(counts);
    cuda_page_scores(chunk.rows, chunk.kv, chunk.queries, page_, scores.items, *chunk.arena, chunk.stream);
    const RowOrder page_order = cuda_sort_descending(scores, *chunk.arena, chunk.stream);
    const dim3 grid((counts.max + kTwilightThreads - 1) / kTwilightThreads, chunk.rows.num_rows);
    flag_first_kernel<<<grid, kTwilightThreads, 0, chunk.stream>>>(page_order, wanted.device, flags);
    ATTEST_CUDA_LAUNCHED(flag_first_kernel);
    base_kept_kernel<<<chunk.rows.num_rows / chunk.rows.group, kTwilightThreads, 0, chunk.stream>>>(chunk.rows, flags,
                                                                                                    page_, base_kept);
    ATTEST_CUDA_LAUNCHED(base_kept_kernel);
    return cuda_order_of_flagged(order, tokens, flags.items, page_, kept, *chunk.arena, chunk.stream);
  }
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_twilight(const TwilightOptions& options) {
  return std::make_shared<CudaTwilight>(options);
}

}  // namespace attest
