// quest on the device; the method and its sources stand in quest.cpp.

#include "kernels/attention/page_scores_cuda.h"
#include "kernels/device/fill_rows.cuh"
#include "kernels/quantize/ranges_cuda.h"
#include "kernels/rank/rank_correlation_cuda.h"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/quest_options.h"

namespace attest {
namespace {

struct EstimateOfPage {
  const float* pages;
  std::int64_t stride;
  int page;
  __device__ float operator()(int row, int token) const { return pages[row * stride + token / page]; }
};

class CudaQuest final : public CudaSelector, QuestOptions {
 public:
  explicit CudaQuest(const QuestOptions& options) : QuestOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const DeviceRows& rows = chunk.rows;
    const RowCounts counts(chunk, [&](std::int64_t visible) { return pages(visible); });
    const std::size_t elements = static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(counts.max);
    auto* scores = chunk.take<float>(elements);
    device_page_scores(rows, chunk.kv, chunk.queries, page_, scores, counts.max, *chunk.arena, chunk.stream);
    out.covered = RowCounts(chunk, [](std::int64_t visible) { return visible; });
    out.entries = {scores, counts.max, counts.device, rows.num_rows, counts.max};
    out.entry_width = page_;
    out.entry_order = sort_rows(out.entries, *chunk.arena, chunk.stream);
    auto* estimate = chunk.take_rows<float>();
    fill_rows(rows, EstimateOfPage{scores, counts.max, page_}, estimate, chunk.stream);
    out.estimate = estimate;

    Level* levels = chunk.take_levels();
    out.levels = levels;
    out.level_run = page_;
    const DeviceArena::Scope scope(*chunk.arena);
    RowValues ranked = out.entries;
    RowOrder order = out.entry_order;
    if (shared_) {
      auto* sums = chunk.take<float>(elements);
      group_sums(out.entries, rows.group, sums, chunk.stream);
      ranked.values = sums;
      order = sort_rows(ranked, *chunk.arena, chunk.stream);
    }
    expand_levels(rows, page_levels(chunk, grids, ranked, order), counts.max, page_, nullptr, levels, chunk.stream);
    out.io =
        group_costs(chunk, [&](std::int64_t visible) { return bytes(chunk.kv.head_dim, chunk.kv.value_dim, visible); });
  }

 private:
  /// Entry levels of the pages, whose descending order is given.
  const Level* page_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, RowValues ranked,
                           RowOrder order) const {
    const std::size_t elements = static_cast<std::size_t>(ranked.rows) * static_cast<std::size_t>(ranked.stride);
    auto* levels = chunk.take<Level>(elements);
    if (preset_ == Preset::evaluation) {
      const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
        return static_cast<int>(kept_pages(budget, visible));
      });
      top_n_item_levels(order, ranked, chunk.rows.query, n, levels, ranked.stride, chunk.stream);
      return levels;
    }
    // The last page is always kept; the others compete for what is left.
    const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
      return static_cast<int>(kept_pages(budget, visible)) - 1;
    });
    const RowCounts others(chunk, [&](std::int64_t visible) { return pages(visible) - 1; });
    order = order_below(order, ranked, others.device, *chunk.arena, chunk.stream);
    ranked.counts = others.device;
    ATTEST_CUDA(cudaMemsetAsync(levels, 0, elements * sizeof(Level), chunk.stream));
    top_n_item_levels(order, ranked, chunk.rows.query, n, levels, ranked.stride, chunk.stream);
    return levels;
  }
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_quest(const QuestOptions& options) {
  return std::make_shared<CudaQuest>(options);
}

}  // namespace attest
