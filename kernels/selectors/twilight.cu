// twilight on the device; the method and its sources stand in twilight.cpp.
#include <algorithm>

#include "kernels/attention/page_scores.h"
#include "kernels/quantize/key_ranges.h"
#include "kernels/quantize/token_keys.cuh"
#include "kernels/rank/row_ranks.h"
#include "kernels/rank/top_p_bisection_cuda.h"
#include "kernels/selectors/cuda_registry.h"

namespace attest {
namespace {

constexpr TokenAsymmetricQuantizer kKeyQuantizer{.bits = 4, .least_range = 1e-9f};
constexpr int kThreads = 256;

/// flags[r][i] = 1 for the n[r] first items of the order.
__global__ void flag_first_kernel(RowOrder order, const int* counts, const int* n, std::uint8_t* flags, std::int64_t stride) {
  const int place = blockIdx.x * kThreads + static_cast<int>(threadIdx.x), row = blockIdx.y;
  if (place < counts[row]) flags[row * stride + order(row, place)] = place < n[row] ? 1 : 0;
}

/// Tokens of the pages that any head of a group has in its base set. Block: one group.
__global__ void __launch_bounds__(kThreads) base_kept_kernel(DeviceRows rows, const std::uint8_t* flags, std::int64_t stride, const int* pages, int page, int* kept) {
  __shared__ int total;
  const int first = blockIdx.x * rows.group, visible = rows.visible[first];
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  int tokens = 0;
  for (int i = threadIdx.x; i < pages[first]; i += kThreads) {
    bool any = false;
    for (int h = 0; h < rows.group; ++h) any |= flags[(first + h) * stride + i] != 0;
    if (any) tokens += min(visible, (i + 1) * page) - i * page;
  }
  atomicAdd(&total, tokens);
  __syncthreads();
  if (threadIdx.x == 0) kept[blockIdx.x] = total;
}

class CudaTwilight final : public CudaSelector {
 public:
  explicit CudaTwilight(OptionReader& reader) {
    quest_base_ = reader.choice("base", {"quest", "none"}) == "quest";
    base_budget_ = reader.budget("base_budget", "8192");
    page_ = reader.integer("page", 16, 1, 1 << 20);
    reference_ = reader.choice("rule", {"exact", "reference"}) == "reference";
    estimated_weights_ = reader.choice("weights", {"exact", "estimated"}) == "estimated";
  }

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const DeviceRows& rows = chunk.rows;
    out.covered = RowCounts(chunk, [](std::int64_t visible) { return visible; });
    auto* estimate = chunk.take_rows<float>();
    float* low = chunk.take_low();
    score(chunk, estimate, low);
    out.estimate_low = low;
    out.estimate = estimate;
    if (estimated_weights_) out.read_scores = estimate;
    RowValues tokens{estimate, rows.stride, rows.visible, rows.num_rows, rows.max_length};
    out.entry_order = sort_rows(tokens, *chunk.arena, chunk.stream);
    out.io = group_costs(chunk, [&](std::int64_t visible) { return cost(chunk.kv, visible); });
    auto* base_kept = chunk.take<int>(static_cast<std::size_t>(rows.num_rows / rows.group));
    Level* levels = chunk.take_levels();
    out.levels = levels;

    RowOrder order = out.entry_order;
    if (quest_base_) {
      auto* kept = chunk.take<int>(static_cast<std::size_t>(rows.num_rows));
      order = base_order(chunk, tokens, order, kept, base_kept);
      tokens.counts = kept;
      out.base_kept = base_kept;
      out.bytes_per_base = chunk.kv.head_dim / 2.0 + 4;
    }
    out.level_order = order;
    out.level_order_counts = tokens.counts;
    const DeviceArena::Scope scope(*chunk.arena);
    fill_levels(rows, static_cast<Level>(grids.front().values.size()), levels, chunk.stream);
    const auto shares = query_settings<double>(chunk, grids, [](double p, std::int64_t) { return p; });
    if (reference_)
      top_p_bisection_levels(order, tokens, rows.query, shares, levels, rows.stride, *chunk.arena, chunk.stream);
    else
      top_p_item_levels(order, tokens, true, rows.query, shares, levels, rows.stride, chunk.stream);
  }

 private:
  static void score(const CudaChunk& chunk, float* estimate, float* low) {
    const DeviceArena::Scope scope(*chunk.arena);
    auto* ranges = chunk.take<float2>(static_cast<std::size_t>(chunk.num_keys));
    channel_ranges(chunk.kv.type, chunk.kv.keys, chunk.num_keys, chunk.kv.head_dim, chunk.kv.head_dim, ranges, chunk.stream);
    score_rows(chunk.rows, chunk.queries, chunk.kv, TokenAsymmetricKeys{.quantizer = kKeyQuantizer, .ranges = ranges}, {.scores = estimate, .low = low}, chunk.stream);
  }

  /// The tokens of the base set in descending estimate; kept [rows] receives their number, base_kept that of every group.
  RowOrder base_order(const CudaChunk& chunk, const RowValues& tokens, const RowOrder& order, int* kept, int* base_kept) const {
    const RowCounts pages(chunk, [&](std::int64_t visible) { return pages_of(visible); });
    const RowCounts wanted(chunk, [&](std::int64_t visible) {
      const auto budget = static_cast<std::int64_t>(base_budget_.resolve(visible));
      return std::min(pages_of(visible), std::max<std::int64_t>(1, budget / page_) + (budget % page_ > 0 ? 1 : 0));
    });
    const std::size_t elements = static_cast<std::size_t>(chunk.rows.num_rows) * static_cast<std::size_t>(pages.max);
    auto* scores = chunk.take<float>(elements);
    auto* flags = chunk.take<std::uint8_t>(elements);
    device_page_scores(chunk.rows, chunk.kv, chunk.queries, page_, scores, pages.max, *chunk.arena, chunk.stream);
    const RowOrder page_order = sort_rows({scores, pages.max, pages.device, chunk.rows.num_rows, pages.max}, *chunk.arena, chunk.stream);
    const dim3 grid((pages.max + kThreads - 1) / kThreads, chunk.rows.num_rows);
    flag_first_kernel<<<grid, kThreads, 0, chunk.stream>>>(page_order, pages.device, wanted.device, flags, pages.max);
    ATTEST_CUDA_LAUNCHED(flag_first_kernel);
    base_kept_kernel<<<chunk.rows.num_rows / chunk.rows.group, kThreads, 0, chunk.stream>>>(chunk.rows, flags, pages.max, pages.device, page_, base_kept);
    ATTEST_CUDA_LAUNCHED(base_kept_kernel);
    return order_of_flagged(order, tokens, flags, pages.max, page_, kept, *chunk.arena, chunk.stream);
  }

  std::int64_t pages_of(std::int64_t visible) const { return (visible + page_ - 1) / page_; }

  /// Without the base set's part, which is counted on the device where it is not simply all tokens.
  IoCost cost(const DeviceKeyValues& kv, std::int64_t visible) const {
    const double fixed = quest_base_ ? static_cast<double>(pages_of(visible)) * 4 * kv.head_dim : static_cast<double>(visible) * (kv.head_dim / 2.0 + 4);
    return {.fixed = fixed, .per_kept_token = dense_token_bytes(kv), .free_tokens = 0};
  }

  bool quest_base_, reference_, estimated_weights_;
  Setting base_budget_;
  int page_;
};

}  // namespace

std::unique_ptr<CudaSelector> make_cuda_twilight(OptionReader& reader) { return std::make_unique<CudaTwilight>(reader); }

}  // namespace attest
