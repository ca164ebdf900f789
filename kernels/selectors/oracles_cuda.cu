// topk, topp, topdelta on the device; the rules stand in oracles.cpp.

#include "kernels/device/cuda_check.h"
#include "kernels/quantize/ranges_cuda.h"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/oracle_options.h"

namespace attest {
namespace {

constexpr int kThreads = 256;

__global__ void widen_kernel(const float* values, int count, double* out) {
  const int i = blockIdx.x * kThreads + static_cast<int>(threadIdx.x);
  if (i < count) out[i] = values[i];
}

class CudaOracle : public CudaSelector, protected OracleOptions {
 public:
  explicit CudaOracle(const OracleOptions& options) : OracleOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const DeviceRows& rows = chunk.rows;
    Level* levels = chunk.take_levels();
    out.levels = levels;
    out.level_run = block_;
    out.io = group_costs(chunk, [&](std::int64_t) {
      return IoCost{.fixed = 0, .per_kept_token = dense_token_bytes(chunk.kv), .free_tokens = 0};
    });
    const DeviceArena::Scope scope(*chunk.arena);
    const RowCounts counts(chunk, [&](std::int64_t visible) { return items(visible); });
    if (!by_block_) {
      const RowValues tokens{chunk.exact, rows.stride, rows.visible, rows.num_rows, rows.max_length};
      item_levels(chunk, grids, tokens, levels);
      if (ranks_items() && !union_) {
        out.level_order = *chunk.exact_order;
        out.level_order_counts = rows.visible;
      }
      if (union_)
        least_group_levels(levels, rows.stride, rows.visible, rows.max_length, rows.num_rows, rows.group, chunk.stream);
      return;
    }
    const std::size_t elements = static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(counts.max);
    auto* blocks = chunk.take<float>(elements);
    auto* block_levels = chunk.take<Level>(elements);
    const Segments segments{chunk.exact, rows.stride, rows.visible, block_, counts.device, rows.num_rows, counts.max};
    if (ranks_masses())
      segment_masses(segments, chunk.exact_max, blocks, counts.max, chunk.stream);
    else
      segment_maxima(segments, blocks, counts.max, chunk.stream);
    item_levels(chunk, grids, {blocks, counts.max, counts.device, rows.num_rows, counts.max}, block_levels);
    if (union_)
      least_group_levels(block_levels, counts.max, counts.device, counts.max, rows.num_rows, rows.group, chunk.stream);
    expand_levels(rows, block_levels, counts.max, block_, nullptr, levels, chunk.stream);
  }

 protected:
  /// Entry levels of items by their value: a token's score, or a block's largest score or mass.
  virtual void item_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& items,
                           Level* levels) const = 0;
  virtual bool ranks_masses() const { return false; }
  /// Whether levels never fall along the order of the items.
  virtual bool ranks_items() const { return true; }

  RowOrder order_of(const CudaChunk& chunk, const RowValues& items) const {
    return by_block_ ? sort_rows(items, *chunk.arena, chunk.stream) : *chunk.exact_order;
  }
};

class CudaTopK final : public CudaOracle {
 public:
  using CudaOracle::CudaOracle;
  bool needs_exact_order() const override { return !by_block_; }

 private:
  void item_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& items,
                   Level* levels) const override {
    const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
      return static_cast<int>(kept_items(budget, visible));
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
  void item_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& items,
                   Level* levels) const override {
    const auto shares = query_settings<double>(chunk, grids, [](double p, std::int64_t) { return p; });
    top_p_item_levels(order_of(chunk, items), items, !by_block_, chunk.rows.query, shares, levels, items.stride,
                      chunk.stream);
  }
};

class CudaTopDelta final : public CudaOracle {
 public:
  using CudaOracle::CudaOracle;

 private:
  bool ranks_items() const override { return false; }  // there is no order
  void item_levels(const CudaChunk& chunk, std::span<const AscendingGrid> grids, const RowValues& items,
                   Level* levels) const override {
    const auto deltas = query_settings<double>(chunk, grids, [](double delta, std::int64_t) { return delta; });
    auto* peak = chunk.take<double>(static_cast<std::size_t>(items.rows));
    widen_kernel<<<(items.rows + kThreads - 1) / kThreads, kThreads, 0, chunk.stream>>>(chunk.exact_max, items.rows,
                                                                                        peak);
    ATTEST_CUDA_LAUNCHED(widen_kernel);
    threshold_item_levels(items, peak, chunk.rows.query, deltas, levels, chunk.stream);
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
