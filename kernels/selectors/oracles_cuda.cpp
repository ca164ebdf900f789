// topk, topp, topdelta on the device. Rules: oracles.cpp.

#include "kernels/device/cuda_check.h"
#include "kernels/rank/entry_levels_cuda.h"
#include "kernels/rank/group_policy_cuda.h"
#include "kernels/rank/segments_cuda.h"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/rank/token_levels_cuda.h"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/oracle_options.h"

namespace attest {
namespace {

class CudaOracle : public CudaSelector, protected OracleOptions {
 public:
  explicit CudaOracle(const OracleOptions& options) : OracleOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const DeviceRows& rows = chunk.rows;
    Level* levels = chunk.take_levels();
    out.levels = levels;
    out.io = group_costs(chunk, [&](std::int64_t) {
      return IoCost{.fixed = 0, .per_kept_token = chunk.kv.shape().token_bytes(), .free_tokens = 0};
    });
    const DeviceArena::Scope scope(*chunk.arena);
    if (!by_block_) {
      const RowValues tokens = chunk.visible_values(chunk.exact);
      const RaggedRows<Level> token_levels{chunk.by_tokens(levels), rows.visible, rows.num_rows, rows.max_length};
      item_levels(chunk, grids, tokens, token_levels.items);
      if (ranks_items() && !union_) out.level_order = {*chunk.exact_order, rows.visible};
      if (union_) cuda_group_minimum_levels(token_levels, rows.group, chunk.stream);
      return;
    }
    const RowCounts counts(chunk, [&](std::int64_t visible) { return items(visible); });
    const RaggedRows<float> blocks = chunk.take_ragged<float>(counts);
    const RaggedRows<Level> block_levels = chunk.take_ragged<Level>(counts);
    if (ranks_masses())
      cuda_segment_masses(chunk.visible_values(chunk.exact), block_, chunk.exact_max, blocks, chunk.stream);
    else
      cuda_segment_maxima(chunk.visible_values(chunk.exact), block_, blocks, chunk.stream);
    item_levels(chunk, grids, blocks, block_levels.items);
    if (union_) cuda_group_minimum_levels(block_levels, rows.group, chunk.stream);
    cuda_token_levels(rows, block_levels.items, block_, nullptr, levels, chunk.stream);
  }

 protected:
  /// Entry levels of the items from their values: a token's score, or a block's largest score or mass.
  virtual void item_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& items,
                           const DeviceMatrix<Level>& levels) const = 0;
  virtual bool ranks_masses() const { return false; }
  /// Whether levels ascend along the order of the items.
  virtual bool ranks_items() const { return true; }

  RowOrder order_of(const CudaChunk& chunk, const RowValues& items) const {
    return by_block_ ? cuda_sort_descending(items, *chunk.arena, chunk.stream) : *chunk.exact_order;
  }
};

class CudaTopK final : public CudaOracle {
 public:
  using CudaOracle::CudaOracle;
  bool needs_exact_order() const override { return !by_block_; }

 private:
  void item_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& items,
                   const DeviceMatrix<Level>& levels) const override {
    const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
      return static_cast<int>(kept_items(budget, visible));
    });
    cuda_top_n_levels(order_of(chunk, items), items, n, levels, chunk.stream);
  }
};

class CudaTopP final : public CudaOracle {
 public:
  using CudaOracle::CudaOracle;
  bool needs_exact_order() const override { return !by_block_; }

 private:
  bool ranks_masses() const override { return true; }
  void item_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& items,
                   const DeviceMatrix<Level>& levels) const override {
    const auto shares = query_settings<double>(chunk, grids, [](double p, std::int64_t) { return p; });
    cuda_top_p_levels(order_of(chunk, items), items, by_block_ ? ItemMass::value : ItemMass::exponential, shares,
                      levels, chunk.stream);
  }
};

class CudaTopDelta final : public CudaOracle {
 public:
  using CudaOracle::CudaOracle;

 private:
  bool ranks_items() const override { return false; }  // items are not sorted
  void item_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& items,
                   const DeviceMatrix<Level>& levels) const override {
    const auto deltas = query_settings<double>(chunk, grids, [](double delta, std::int64_t) { return delta; });
    cuda_threshold_levels(items, chunk.exact_max, deltas, levels, chunk.stream);
  }
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_topk(const OracleOptions& options) {
  return std::make_shared<CudaTopK>(options);
}
std::shared_ptr<const CudaSelector> make_cuda_topp(const OracleOptions& options) {
  return std::make_shared<CudaTopP>(options);
}
std::shared_ptr<const CudaSelector> make_cuda_topdelta(const OracleOptions& options) {
  return std::make_shared<CudaTopDelta>(options);
}

}  // namespace attest
