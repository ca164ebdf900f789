// ffd on the device. Method and sources: ffd.cpp.
#include <algorithm>
#include <cmath>

#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/not_defined.cuh"
#include "kernels/quantize/ranges_cuda.h"
#include "kernels/rank/entry_levels_cuda.h"
#include "kernels/rank/group_policy_cuda.h"
#include "kernels/rank/segments_cuda.h"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/rank/token_levels_cuda.h"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/ffd_options.h"
#include "kernels/selectors/ffd_scores_cuda.cuh"

namespace attest {
namespace {

/// Inputs and outputs of pseudo_max_kernel: per-row maxima over the largest scores of the sub-blocks.
struct PseudoMaxTask {
  RowValues estimate;               // largest s^ per sub-block
  DeviceMatrix<const float> exact;  // largest exact score per sub-block
  const float* exact_max;           // [rows] over all visible keys
  int sink_parts, local_parts;
  FfdPseudoMax pseudo_max;
  bool scans_exactly;
  float* peak;                                 // [rows] m~
  float* largest;                              // [rows] largest s^ of the full blocks
  float *gap_exact, *gap_thumbnail, *gap_all;  // [rows]
};

constexpr int kPeakThreads = 128;

__global__ void __launch_bounds__(kPeakThreads) pseudo_max_kernel(PseudoMaxTask task) {
  __shared__ float shared[32];
  const int row = blockIdx.x, parts = task.estimate.counts[row];
  const float *estimate = task.estimate.row(row), *exact = task.exact.row(row);
  const float lowest = -__int_as_float(0x7F800000);
  float all = lowest, all_exact = lowest, boundary = lowest, boundary_exact = lowest;
  for (int c = threadIdx.x; c < parts; c += kPeakThreads) {
    all = fmaxf(all, estimate[c]);
    all_exact = fmaxf(all_exact, exact[c]);
    if (c >= task.sink_parts && c < parts - task.local_parts) continue;
    boundary = fmaxf(boundary, estimate[c]);
    boundary_exact = fmaxf(boundary_exact, exact[c]);
  }
  block_reduce_each(shared, Larger{}, all, all_exact, boundary, boundary_exact);
  if (threadIdx.x != 0) return;
  switch (task.pseudo_max) {
    case FfdPseudoMax::thumbnail:
      task.peak[row] = boundary;
      break;
    case FfdPseudoMax::exact:
      task.peak[row] = boundary_exact;
      break;
    case FfdPseudoMax::global:
      task.peak[row] = all;
      break;
    case FfdPseudoMax::global_exact:
      task.peak[row] = all_exact;
      break;
  }
  task.largest[row] = all;
  const bool defined = parts > 0;
  task.gap_exact[row] = defined ? all_exact - boundary_exact : not_defined();
  task.gap_thumbnail[row] = defined && !task.scans_exactly ? all_exact - boundary : not_defined();
  task.gap_all[row] = defined ? task.exact_max[row] - boundary_exact : not_defined();
}

class CudaFfd final : public CudaSelector, FfdOptions {
 public:
  explicit CudaFfd(const FfdOptions& options) : FfdOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    out.covered = RowCounts(chunk, [&](std::int64_t visible) { return visible / block_ * block_; });
    out.covers_all = std::ranges::equal(out.covered.host, chunk.visible);
    scan(chunk, out);
    rule(chunk, grids, out);
    out.io = group_costs(chunk, [&](std::int64_t visible) { return bytes(chunk.kv.shape(), visible); });
  }

 private:
  /// Computes the estimate and the scores that the output is computed from.
  void scan(const CudaChunk& chunk, CudaSelection& out) const {
    if (scans_exactly_) {
      out.estimate = chunk.exact;
      out.estimate_low = chunk.exact_low;
      return;
    }
    const bool refines = quantizer_.residual == FfdResidual::fp8 || quantizer_.residual == FfdResidual::int8;
    float* estimate = chunk.take_rows<float>();
    float* low = chunk.take_low();
    float* refined = refines ? chunk.take_rows<float>() : nullptr;
    ScoreTargets targets{.limit = out.covered.device,
                         .exact = chunk.exact,
                         .scores = estimate,
                         .refined = refined,
                         .exact_low = chunk.exact_low,
                         .low = low};
    refines ? score<true>(chunk, out.covered, targets) : score<false>(chunk, out.covered, targets);
    out.estimate_low = low;
    out.estimate = estimate;
    if (refines) out.read_scores = refined;
    if (quantizer_.residual == FfdResidual::none) out.read_scores = estimate;
  }

  template <bool kRefines>
  void score(const CudaChunk& chunk, const RowCounts& covered, const ScoreTargets& targets) const {
    const DeviceArena::Scope scope(*chunk.arena);
    FfdKeys<kRefines> form;
    form.quantizer = quantizer_;
    form.quantizer.element_type = chunk.kv.type;
    form.num_residual_parts = !kRefines ? 0 : quantizer_.residual == FfdResidual::fp8 ? 1 : 3;
    DeviceRows rows = chunk.rows;
    form.block = scale_per_sequence_ ? rows.max_length + 1 : block_;
    form.scales = scale_per_sequence_
                      ? sequence_scales(chunk, covered, form.quantizer, rows)
                      : cuda_ffd_block_scales(form.quantizer, rows, chunk.kv, block_, *chunk.arena, chunk.stream);
    cuda_ffd_scores(rows, chunk.queries, chunk.kv, form, targets, chunk.stream);
  }

  /// A query's scales depend on its number of full blocks. Sets `rows` to the chunk's rows, in batches whose rows
  /// have the same number, and returns one table of scales per batch.
  ChannelTables<float> sequence_scales(const CudaChunk& chunk, const RowCounts& covered, const FfdQuantizer& quantizer,
                                       DeviceRows& rows) const {
    const auto blocks_of = [&](int row) { return covered.host[static_cast<std::size_t>(row)] / block_; };
    const std::vector<RowBatch> batches = cut_batches(chunk, blocks_of);
    std::vector<int> origins, full_blocks;
    for (const RowBatch& batch : batches) {
      origins.push_back(batch.origin);
      full_blocks.push_back(blocks_of(batch.first_row));
    }
    rows = in_batches(chunk, batches);
    return cuda_ffd_sequence_scales(quantizer, chunk.rows, chunk.kv, block_, chunk.upload(origins),
                                    chunk.upload(full_blocks), rows.num_batches, *chunk.arena, chunk.stream);
  }

  /// Entry levels of sub-blocks, then of tokens.
  void rule(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const {
    const int settings = static_cast<int>(grids.front().values.size()), num_rows = chunk.rows.num_rows;
    Level* levels = chunk.take_levels();
    out.levels = levels;
    float *gap_exact = chunk.take<float>(static_cast<std::size_t>(num_rows)),
          *gap_thumbnail = chunk.take<float>(static_cast<std::size_t>(num_rows)),
          *gap_all = chunk.take<float>(static_cast<std::size_t>(num_rows));
    float* keep_ratio = chunk.take<float>(static_cast<std::size_t>(num_rows) * static_cast<std::size_t>(settings));
    out.own_metrics = {gap_exact, gap_thumbnail, gap_all, keep_ratio};

    const DeviceArena::Scope scope(*chunk.arena);
    const RowCounts parts(chunk, [&](std::int64_t visible) { return visible / block_ * (block_ / sub_block_); });
    const RaggedRows<float> best = chunk.take_ragged<float>(parts), best_exact = chunk.take_ragged<float>(parts);
    const auto covered = [&](const float* scores) {
      return RowValues{chunk.by_tokens(scores), out.covered.device, num_rows, out.covered.max};
    };
    cuda_segment_maxima(covered(out.estimate), sub_block_, best, chunk.stream);
    cuda_segment_maxima(covered(chunk.exact), sub_block_, best_exact, chunk.stream);
    auto* peak = chunk.take<float>(static_cast<std::size_t>(num_rows));
    float* largest = chunk.take<float>(static_cast<std::size_t>(num_rows));
    const int per_block = block_ / sub_block_;
    const auto boundary_counts = [&](int blocks) {
      return static_cast<int>(std::min<std::int64_t>(parts.max, static_cast<std::int64_t>(blocks) * per_block));
    };
    pseudo_max_kernel<<<num_rows, kPeakThreads, 0, chunk.stream>>>(
        {best, best_exact.items, chunk.exact_max, boundary_counts(sink_blocks_), boundary_counts(local_blocks_),
         pseudo_max_, scans_exactly_, peak, largest, gap_exact, gap_thumbnail, gap_all});
    ATTEST_CUDA_LAUNCHED(pseudo_max_kernel);

    const RaggedRows<Level> part_levels = chunk.take_ragged<Level>(parts);
    switch (rule_) {
      case Rule::topdelta:
        cuda_threshold_levels(
            best, peak,
            query_settings<double>(chunk, grids,
                                   [&](double delta, std::int64_t) { return natural(delta, chunk.transform); }),
            part_levels.items, chunk.stream);
        break;
      case Rule::topk: {
        if (union_) cuda_group_maxima(best, chunk.rows.group, best.items, chunk.stream);
        const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
          return static_cast<int>(kept_sub_blocks(budget, static_cast<double>(full_blocks(visible) * per_block)));
        });
        cuda_top_n_levels(cuda_sort_descending(best, *chunk.arena, chunk.stream), best, n, part_levels.items,
                          chunk.stream);
        break;
      }
      case Rule::topp: {
        cuda_segment_masses(covered(out.estimate), sub_block_, largest, best, chunk.stream);
        const auto shares = query_settings<double>(chunk, grids, [](double p, std::int64_t) { return p; });
        cuda_top_p_levels(cuda_sort_descending(best, *chunk.arena, chunk.stream), best, ItemMass::value, shares,
                          part_levels.items, chunk.stream);
        break;
      }
    }
    if (union_) cuda_group_minimum_levels(part_levels, chunk.rows.group, chunk.stream);
    cuda_level_shares(part_levels, settings, keep_ratio, chunk.stream);
    cuda_token_levels(chunk.rows, part_levels.items, sub_block_, out.covered.device, levels, chunk.stream);
  }
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_ffd(const FfdOptions& options) {
  return std::make_shared<CudaFfd>(options);
}

}  // namespace attest
