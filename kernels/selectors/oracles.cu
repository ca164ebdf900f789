// topk, topp, topdelta on the device; the rules stand in oracles.cpp.
#include <algorithm>
#include <cmath>

#include "kernels/device/cuda_check.h"
#include "kernels/quantize/key_ranges.h"
#include "kernels/selectors/cuda_registry.h"

namespace attest {
namespace {

constexpr int kThreads = 256;

__global__ void widen_kernel(const float* values, int count, double* out) {
  const int i = blockIdx.x * kThreads + static_cast<int>(threadIdx.x);
  if (i < count) out[i] = values[i];
}

class CudaOracle : public CudaSelector {
 public:
  explicit CudaOracle(OptionReader& reader) {
    by_block_ = reader.choice("granularity", {"token", "block"}) == "block";
    const int block = reader.integer("block", 128, 1, 1 << 20);
    block_ = by_block_ ? block : 1;
    union_ = reader.choice("gqa", {"per_head", "union"}) == "union";
  }

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const DeviceRows& rows = chunk.rows;
    Level* levels = chunk.take_levels();
    out.levels = levels;
    out.level_run = by_block_ ? block_ : 1;
    out.io = group_costs(chunk, [&](std::int64_t) { return IoCost{.fixed = 0, .per_kept_token = dense_token_bytes(chunk.kv), .free_tokens = 0}; });
    const DeviceArena::Scope scope(*chunk.arena);
    const RowCounts items(chunk, [&](std::int64_t visible) { return (visible + block_ - 1) / block_; });
    if (!by_block_) {
      const RowValues tokens{chunk.exact, rows.stride, rows.visible, rows.num_rows, rows.max_length};
      item_levels(chunk, grids, tokens, levels);
      if (ranks_items() && !union_) {
        out.level_order = *chunk.exact_order;
        out.level_order_counts = rows.visible;
      }
      if (union_) least_group_levels(levels, rows.stride, rows.visible, rows.max_length, rows.num_rows, rows.group, chunk.stream);
      return;
    }
    const std::size_t elements = static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(items.max);
    auto* blocks = chunk.take<float>(elements);
    auto* block_levels = chunk.take<Level>(elements);
    const Segments segments{chunk.exact, rows.stride, rows.visible, block_, items.device, rows.num_rows, items.max};
    if (ranks_masses())
      segment_masses(segments, chunk.exact_max, blocks, items.max, chunk.stream);
    else
      segment_maxima(segments, blocks, items.max, chunk.stream);
    item_levels(chunk, grids, {blocks, items.max, items.device, rows.num_rows, items.max}, block_levels);
    if (union_) least_group_levels(block_levels, items.max, items.device, items.max, rows.num_rows, rows.group, chunk.stream);
    expand_levels(rows, block_levels, items.max, block_, nullptr, levels, chunk.stream);
  }

 protected:
  /// Entry levels of items by their value: a token's score, or a block's largest score or mass.
  virtual void item_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& items, Level* levels) const = 0;
  virtual bool ranks_masses() const { return false; }
  /// Whether levels never fall along the order of the items.
  virtual bool ranks_items() const { return true; }

  RowOrder order_of(const CudaChunk& chunk, const RowValues& items) const {
    return by_block_ ? sort_rows(items, *chunk.arena, chunk.stream) : *chunk.exact_order;
  }

  int block_ = 1;  ///< tokens per item
  bool by_block_ = false;

 private:
  bool union_;
};

class CudaTopK final : public CudaOracle {
 public:
  using CudaOracle::CudaOracle;
  bool needs_exact_order() const override { return !by_block_; }

 private:
  void item_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& items, Level* levels) const override {
    const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
      const auto all = static_cast<double>((visible + block_ - 1) / block_);
      return static_cast<int>(std::min(all, std::max(1.0, std::floor(budget / block_))));
    });
    top_n_item_levels(order_of(chunk, items), items, chunk.rows.query, n, levels, items.stride, chunk.stream);
  }
};

class CudaTopP final : public CudaOracle {
 public:
  using CudaOracle::CudaOracle;
  bool needs_exact_order() const override { return !by_block_; }

 private:
  bool ranks_masses() const override { return true; }
  void item_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& items, Level* levels) const override {
    const auto shares = query_settings<double>(chunk, grids, [](double p, std::int64_t) { return p; });
    top_p_item_levels(order_of(chunk, items), items, !by_block_, chunk.rows.query, shares, levels, items.stride, chunk.stream);
  }
};

class CudaTopDelta final : public CudaOracle {
 public:
  using CudaOracle::CudaOracle;

 private:
  bool ranks_items() const override { return false; }  // there is no order
  void item_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& items, Level* levels) const override {
    const auto deltas = query_settings<double>(chunk, grids, [](double delta, std::int64_t) { return delta; });
    auto* peak = chunk.take<double>(static_cast<std::size_t>(items.rows));
    widen_kernel<<<(items.rows + kThreads - 1) / kThreads, kThreads, 0, chunk.stream>>>(chunk.exact_max, items.rows, peak);
    ATTEST_CUDA_LAUNCHED(widen_kernel);
    threshold_item_levels(items, peak, chunk.rows.query, deltas, levels, chunk.stream);
  }
};

}  // namespace

std::unique_ptr<CudaSelector> make_cuda_topk(OptionReader& reader) { return std::make_unique<CudaTopK>(reader); }
std::unique_ptr<CudaSelector> make_cuda_topp(OptionReader& reader) { return std::make_unique<CudaTopP>(reader); }
std::unique_ptr<CudaSelector> make_cuda_topdelta(OptionReader& reader) { return std::make_unique<CudaTopDelta>(reader); }

}  // namespace attest
