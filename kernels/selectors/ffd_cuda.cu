// ffd on the device; the method and its sources stand in ffd.cpp.
#include <algorithm>
#include <cmath>

#include "kernels/device/block_reduce.cuh"
#include "kernels/quantize/ffd_thumbnail_cuda.cuh"
#include "kernels/quantize/ranges_cuda.h"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/ffd_options.h"

namespace attest {
namespace {

/// Largest scores of a row's sub-blocks, and what follows from them.
struct PeakTask {
  const float *estimate, *exact;  // [rows, stride] by sub-block
  std::int64_t stride;
  const int* parts;        // [rows]
  const float* exact_max;  // [rows] of all visible keys
  int sink_parts, local_parts;
  FfdPseudoMax pseudo_max;
  bool scans_exactly;
  double* peak;                                // [rows] m~
  float* largest;                              // [rows] estimate
  float *gap_exact, *gap_thumbnail, *gap_all;  // [rows]
};

constexpr int kPeakThreads = 128;

__global__ void __launch_bounds__(kPeakThreads) peak_kernel(PeakTask task) {
  __shared__ float shared[32];
  const int row = blockIdx.x, parts = task.parts[row];
  const float *estimate = task.estimate + row * task.stride, *exact = task.exact + row * task.stride;
  const float lowest = -__int_as_float(0x7F800000), undefined = __int_as_float(0x7FC00000);
  float all = lowest, all_exact = lowest, ends = lowest, ends_exact = lowest;
  for (int c = threadIdx.x; c < parts; c += kPeakThreads) {
    all = fmaxf(all, estimate[c]);
    all_exact = fmaxf(all_exact, exact[c]);
    if (c >= task.sink_parts && c < parts - task.local_parts) continue;
    ends = fmaxf(ends, estimate[c]);
    ends_exact = fmaxf(ends_exact, exact[c]);
  }
  block_reduce_each(shared, Larger{}, all, all_exact, ends, ends_exact);
  if (threadIdx.x != 0) return;
  switch (task.pseudo_max) {
    case FfdPseudoMax::thumbnail:
      task.peak[row] = ends;
      break;
    case FfdPseudoMax::exact:
      task.peak[row] = ends_exact;
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
  task.gap_exact[row] = defined ? all_exact - ends_exact : undefined;
  task.gap_thumbnail[row] = defined && !task.scans_exactly ? all_exact - ends : undefined;
  task.gap_all[row] = defined ? task.exact_max[row] - ends_exact : undefined;
}

class CudaFfd final : public CudaSelector, FfdOptions {
 public:
  explicit CudaFfd(const FfdOptions& options) : FfdOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    out.covered = RowCounts(chunk, [&](std::int64_t visible) { return visible / block_ * block_; });
    out.covers_all = std::ranges::equal(out.covered.host, chunk.visible);
    scan(chunk, out);
    rule(chunk, grids, out);
    out.io =
        group_costs(chunk, [&](std::int64_t visible) { return bytes(chunk.kv.head_dim, chunk.kv.value_dim, visible); });
  }

 private:
  /// Fills the estimate and the scores that the computer reads.
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
    form.padded = padded_channels(chunk.kv.head_dim);
    form.num_residual_parts = !kRefines ? 0 : quantizer_.residual == FfdResidual::fp8 ? 1 : 3;
    const int segments = segments_of(chunk.rows.max_length, block_);
    const std::size_t table = static_cast<std::size_t>(segments) * static_cast<std::size_t>(form.padded);
    const auto origins = static_cast<std::size_t>(chunk.rows.num_origins);
    DeviceRows rows = chunk.rows;
    if (!scale_per_sequence_) {
      auto* scales = chunk.take<float>(origins * table);
      ffd_block_scales(form.quantizer, rows, chunk.kv, block_, scales, chunk.take<float>(origins * table),
                       chunk.stream);
      form.scales = scales;
      form.block = block_;
      form.per_params = static_cast<std::int64_t>(table);
    } else {
      form.scales = sequence_scales(chunk, covered, form.quantizer, origins * table, rows);
      form.block = chunk.rows.max_length + 1;
      form.per_params = form.padded;
    }
    score_rows(rows, chunk.queries, chunk.kv, form, targets, chunk.stream);
  }

  /// The scales hang on how many full blocks a query sees: batches are cut into `rows` that agree in it, each with its
  /// own scales.
  const float* sequence_scales(const CudaChunk& chunk, const RowCounts& covered, const FfdQuantizer& quantizer,
                               std::size_t table_elements, DeviceRows& rows) const {
    const auto blocks_of = [&](int row) { return covered.host[static_cast<std::size_t>(row)] / block_; };
    const std::vector<RowBatch> batches = cut_batches(chunk, blocks_of);
    std::vector<int> origins, full_blocks;
    for (const RowBatch& batch : batches) {
      origins.push_back(batch.origin);
      full_blocks.push_back(blocks_of(batch.first_row));
    }
    const int count = static_cast<int>(batches.size());
    auto* scales = chunk.take<float>(batches.size() * static_cast<std::size_t>(padded_channels(chunk.kv.head_dim)));
    ffd_sequence_scales(quantizer, chunk.rows, chunk.kv, block_, chunk.upload(origins), chunk.upload(full_blocks),
                        count, scales, chunk.take<float>(table_elements), chunk.take<float>(table_elements),
                        chunk.stream);
    rows = in_batches(chunk, batches);
    return scales;
  }

  /// Entry levels of sub-blocks, then of tokens.
  void rule(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const {
    const int settings = static_cast<int>(grids.front().values.size()), num_rows = chunk.rows.num_rows;
    Level* levels = chunk.take_levels();
    out.levels = levels;
    out.level_run = sub_block_;
    float *gap_exact = chunk.take<float>(static_cast<std::size_t>(num_rows)),
          *gap_thumbnail = chunk.take<float>(static_cast<std::size_t>(num_rows)),
          *gap_all = chunk.take<float>(static_cast<std::size_t>(num_rows));
    float* keep_ratio = chunk.take<float>(static_cast<std::size_t>(num_rows) * static_cast<std::size_t>(settings));
    out.own_metrics = {gap_exact, gap_thumbnail, gap_all, keep_ratio};

    const DeviceArena::Scope scope(*chunk.arena);
    const RowCounts parts(chunk, [&](std::int64_t visible) { return visible / block_ * (block_ / sub_block_); });
    const std::int64_t stride = std::max(1, parts.max);
    const auto take_parts = [&]<class T>(T*) { return chunk.take<T>(static_cast<std::size_t>(num_rows * stride)); };
    float* best = take_parts(static_cast<float*>(nullptr));
    float* best_exact = take_parts(static_cast<float*>(nullptr));
    Segments segments{out.estimate, chunk.rows.stride, out.covered.device, sub_block_,
                      parts.device, num_rows,          parts.max};
    segment_maxima(segments, best, stride, chunk.stream);
    segments.values = chunk.exact;
    segment_maxima(segments, best_exact, stride, chunk.stream);
    auto* peak = chunk.take<double>(static_cast<std::size_t>(num_rows));
    float* largest = chunk.take<float>(static_cast<std::size_t>(num_rows));
    const int per_block = block_ / sub_block_;
    const auto ends = [&](int blocks) {
      return static_cast<int>(std::min<std::int64_t>(parts.max, static_cast<std::int64_t>(blocks) * per_block));
    };
    peak_kernel<<<num_rows, kPeakThreads, 0, chunk.stream>>>(
        {best, best_exact, stride, parts.device, chunk.exact_max, ends(sink_blocks_), ends(local_blocks_), pseudo_max_,
         scans_exactly_, peak, largest, gap_exact, gap_thumbnail, gap_all});
    ATTEST_CUDA_LAUNCHED(peak_kernel);

    Level* part_levels = take_parts(static_cast<Level*>(nullptr));
    const RowValues values{best, stride, parts.device, num_rows, parts.max};
    switch (rule_) {
      case Rule::topdelta:
        threshold_item_levels(
            values, peak, chunk.rows.query,
            query_settings<double>(chunk, grids,
                                   [&](double delta, std::int64_t) { return natural(delta, chunk.transform); }),
            part_levels, chunk.stream);
        break;
      case Rule::topk: {
        if (union_) group_maxima(values, chunk.rows.group, best, chunk.stream);
        const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
          const auto all = static_cast<double>(visible / block_ * per_block);
          return static_cast<int>(std::min(all, std::max(1.0, std::floor(budget / sub_block_))));
        });
        top_n_item_levels(sort_rows(values, *chunk.arena, chunk.stream), values, chunk.rows.query, n, part_levels,
                          stride, chunk.stream);
        break;
      }
      case Rule::topp: {
        segments.values = out.estimate;
        segment_masses(segments, largest, best, stride, chunk.stream);
        const auto shares = query_settings<double>(chunk, grids, [](double p, std::int64_t) { return p; });
        top_p_item_levels(sort_rows(values, *chunk.arena, chunk.stream), values, false, chunk.rows.query, shares,
                          part_levels, stride, chunk.stream);
        break;
      }
    }
    if (union_)
      least_group_levels(part_levels, stride, parts.device, parts.max, num_rows, chunk.rows.group, chunk.stream);
    level_shares(part_levels, stride, parts.device, num_rows, settings, keep_ratio, chunk.stream);
    expand_levels(chunk.rows, part_levels, stride, sub_block_, out.covered.device, levels, chunk.stream);
  }
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_ffd(const FfdOptions& options) {
  return std::make_shared<CudaFfd>(options);
}

}  // namespace attest
