// quest on the device. Method and sources: quest.cpp.

#include "kernels/attention/page_scores_cuda.h"
#include "kernels/device/fill_rows.cuh"
#include "kernels/rank/entry_levels_cuda.h"
#include "kernels/rank/group_policy_cuda.h"
#include "kernels/rank/rank_correlation_cuda.h"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/rank/token_levels_cuda.h"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/quest_options.h"

namespace attest {
namespace {

struct EstimateOfPage {
  DeviceMatrix<const float> pages;
  int page;
  __device__ float operator()(int row, int token) const { return pages.row(row)[token / page]; }
};

class CudaQuest final : public CudaSelector, QuestOptions {
 public:
  explicit CudaQuest(const QuestOptions& options) : QuestOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const DeviceRows& rows = chunk.rows;
    const RowCounts counts(chunk, [&](std::int64_t visible) { return pages(visible); });
    const RaggedRows<float> scores = chunk.take_ragged<float>(counts);
    cuda_page_scores(rows, chunk.kv, chunk.queries, page_, scores.items, *chunk.arena, chunk.stream);
    out.covered = RowCounts(chunk, [](std::int64_t visible) { return visible; });
    out.entries = scores;
    out.entry_width = page_;
    out.entry_order = cuda_sort_descending(out.entries, *chunk.arena, chunk.stream);
    auto* estimate = chunk.take_rows<float>();
    fill_rows(rows, EstimateOfPage{scores.items, page_}, estimate, chunk.stream);
    out.estimate = estimate;

    Level* levels = chunk.take_levels();
    out.levels = levels;
    const DeviceArena::Scope scope(*chunk.arena);
    RowValues ranked = out.entries;
    RowOrder order = out.entry_order;
    if (shared_) {
      const RaggedRows<float> sums = chunk.take_ragged<float>(counts);
      cuda_group_sums(out.entries, rows.group, sums.items, chunk.stream);
      ranked = sums;
      order = cuda_sort_descending(ranked, *chunk.arena, chunk.stream);
    }
    cuda_token_levels(rows, page_levels(chunk, grids, ranked, order), page_, nullptr, levels, chunk.stream);
    out.io = group_costs(chunk, [&](std::int64_t visible) { return bytes(chunk.kv.shape(), visible); });
  }

 private:
  /// Entry levels of the pages, given their scores and their descending order.
  DeviceMatrix<const Level> page_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, RowValues ranked,
                                        RowOrder order) const {
    const std::size_t elements = static_cast<std::size_t>(ranked.rows) * static_cast<std::size_t>(ranked.items.stride);
    const DeviceMatrix<Level> levels{chunk.take<Level>(elements), ranked.items.stride};
    if (preset_ == Preset::evaluation) {
      const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
        return static_cast<int>(kept_pages(budget, visible));
      });
      cuda_top_n_levels(order, ranked, n, levels, chunk.stream);
      return levels;
    }
    // The last page is always kept. The others compete for the remaining n - 1 places.
    const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
      return static_cast<int>(kept_pages(budget, visible)) - 1;
    });
    const RowCounts others(chunk, [&](std::int64_t visible) { return pages(visible) - 1; });
    order = cuda_order_below(order, ranked, others.device, *chunk.arena, chunk.stream);
    ranked.counts = others.device;
    ATTEST_CUDA(cudaMemsetAsync(levels.data, 0, elements * sizeof(Level), chunk.stream));
    cuda_top_n_levels(order, ranked, n, levels, chunk.stream);
    return levels;
  }
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_quest(const QuestOptions& options) {
  return std::make_shared<CudaQuest>(options);
}

}  // namespace attest
