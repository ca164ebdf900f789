// quest on the device; the method and its sources stand in quest.cpp.
#include <algorithm>
#include <cmath>

#include "kernels/attention/fill_rows.cuh"
#include "kernels/attention/page_scores.h"
#include "kernels/quantize/key_ranges.h"
#include "kernels/rank/row_ranks.h"
#include "kernels/selectors/cuda_registry.h"

namespace attest {
namespace {

enum class Preset : std::uint8_t { evaluation, kernel };

struct EstimateOfPage {
  const float* pages;
  std::int64_t stride;
  int page;
  __device__ float operator()(int row, int token) const { return pages[row * stride + token / page]; }
};

class CudaQuest final : public CudaSelector {
 public:
  explicit CudaQuest(OptionReader& reader) {
    page_ = reader.integer("page", 16, 1, 1 << 20);
    preset_ = reader.enumeration<Preset>("preset", {"evaluation", "kernel"});
    shared_ = reader.choice("gqa", {"per_head", "shared"}) == "shared";
  }

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const DeviceRows& rows = chunk.rows;
    const RowCounts pages(chunk, [&](std::int64_t visible) { return pages_of(visible); });
    const std::size_t elements = static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(pages.max);
    auto* scores = chunk.take<float>(elements);
    device_page_scores(rows, chunk.kv, chunk.queries, page_, scores, pages.max, *chunk.arena, chunk.stream);
    out.covered = RowCounts(chunk, [](std::int64_t visible) { return visible; });
    out.entries = {scores, pages.max, pages.device, rows.num_rows, pages.max};
    out.entry_width = page_;
    out.entry_order = sort_rows(out.entries, *chunk.arena, chunk.stream);
    auto* estimate = chunk.take_rows<float>();
    fill_rows(rows, EstimateOfPage{scores, pages.max, page_}, estimate, chunk.stream);
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
    expand_levels(rows, page_levels(chunk, grids, ranked, order), pages.max, page_, nullptr, levels, chunk.stream);
    out.io = group_costs(chunk, [&](std::int64_t visible) {
      return IoCost{.fixed = static_cast<double>(pages_of(visible)) * 4 * chunk.kv.head_dim, .per_kept_token = dense_token_bytes(chunk.kv), .free_tokens = 0};
    });
  }

 private:
  std::int64_t pages_of(std::int64_t visible) const { return (visible + page_ - 1) / page_; }

  /// Entry levels of the pages, whose descending order is given.
  const Level* page_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, RowValues ranked, RowOrder order) const {
    const std::size_t elements = static_cast<std::size_t>(ranked.rows) * static_cast<std::size_t>(ranked.stride);
    auto* levels = chunk.take<Level>(elements);
    if (preset_ == Preset::evaluation) {
      const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
        const double wanted = std::max(3.0, std::floor(std::min(budget, static_cast<double>(visible)) / page_));
        return static_cast<int>(std::min(wanted, static_cast<double>(pages_of(visible))));
      });
      top_n_item_levels(order, ranked, chunk.rows.query, n, levels, ranked.stride, chunk.stream);
      return levels;
    }
    // The last page is always kept; the others compete for what is left.
    const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
      return static_cast<int>(std::min(static_cast<double>(pages_of(visible)), std::max(1.0, std::floor(budget / page_)))) - 1;
    });
    const RowCounts others(chunk, [&](std::int64_t visible) { return pages_of(visible) - 1; });
    order = order_below(order, ranked, others.device, *chunk.arena, chunk.stream);
    ranked.counts = others.device;
    ATTEST_CUDA(cudaMemsetAsync(levels, 0, elements * sizeof(Level), chunk.stream));
    top_n_item_levels(order, ranked, chunk.rows.query, n, levels, ranked.stride, chunk.stream);
    return levels;
  }

  int page_;
  Preset preset_;
  bool shared_;
};

}  // namespace

std::unique_ptr<CudaSelector> make_cuda_quest(OptionReader& reader) { return std::make_unique<CudaQuest>(reader); }

}  // namespace attest
