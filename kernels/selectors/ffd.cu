// ffd on the device; the method and its sources stand in ffd.cpp.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/device/block_reduce.cuh"
#include "kernels/quantize/ffd_keys.cuh"
#include "kernels/quantize/key_ranges.h"
#include "kernels/selectors/cuda_registry.h"

namespace attest {
namespace {

enum class PseudoMax : std::uint8_t { thumbnail, exact, global, global_exact };
enum class DeltaUnit : std::uint8_t { natural, log2, unscaled };
enum class Rule : std::uint8_t { topdelta, topk, topp };

/// Largest scores of a row's sub-blocks, and what follows from them.
struct PeakTask {
  const float *estimate, *exact;  // [rows, stride] by sub-block
  std::int64_t stride;
  const int* parts;               // [rows]
  const float* exact_max;         // [rows] of all visible keys
  int sink_parts, local_parts;
  PseudoMax pseudo_max;
  bool scans_exactly;
  double* peak;                   // [rows] m~
  float* largest;                 // [rows] estimate
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
  all = block_reduce(all, shared, Larger{});
  all_exact = block_reduce(all_exact, shared, Larger{});
  ends = block_reduce(ends, shared, Larger{});
  ends_exact = block_reduce(ends_exact, shared, Larger{});
  if (threadIdx.x != 0) return;
  switch (task.pseudo_max) {
    case PseudoMax::thumbnail: task.peak[row] = ends; break;
    case PseudoMax::exact: task.peak[row] = ends_exact; break;
    case PseudoMax::global: task.peak[row] = all; break;
    case PseudoMax::global_exact: task.peak[row] = all_exact; break;
  }
  task.largest[row] = all;
  const bool defined = parts > 0;
  task.gap_exact[row] = defined ? all_exact - ends_exact : undefined;
  task.gap_thumbnail[row] = defined && !task.scans_exactly ? all_exact - ends : undefined;
  task.gap_all[row] = defined ? task.exact_max[row] - ends_exact : undefined;
}

class CudaFfd final : public CudaSelector {
 public:
  explicit CudaFfd(OptionReader& reader) {
    quantizer_.bits = reader.number("bits", {2, 1, 3, 4, 8});
    block_ = reader.integer("block", 128, 1, 1 << 20);
    sub_block_ = reader.integer("sub_block", block_, 1, 1 << 20);
    scale_per_sequence_ = reader.choice("scale", {"block", "sequence"}) == "sequence";
    quantizer_.residual = reader.enumeration<FfdResidual>("residual", {"fp8", "int8", "none", "exact"});
    pseudo_max_ = reader.enumeration<PseudoMax>("pseudo_max", {"thumbnail", "exact", "global", "global_exact"});
    union_ = reader.choice("gqa", {"union", "per_head"}) == "union";
    delta_unit_ = reader.enumeration<DeltaUnit>("delta_unit", {"natural", "log2", "unscaled"});
    sink_blocks_ = reader.integer("sink_blocks", 1, 0, 1 << 20);
    local_blocks_ = reader.integer("local_blocks", 1, 0, 1 << 20);
    scans_exactly_ = reader.choice("scan", {"thumbnail", "exact"}) == "exact";
    rule_ = reader.enumeration<Rule>("rule", {"topdelta", "topk", "topp"});
    quantizer_.arithmetic = reader.enumeration<QuantArithmetic>("quant_arith", {"float32", "dump"});
  }

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    out.covered = RowCounts(chunk, [&](std::int64_t visible) { return visible / block_ * block_; });
    out.covers_all = std::ranges::equal(out.covered.host, chunk.visible);
    scan(chunk, out);
    rule(chunk, grids, out);
    out.io = group_costs(chunk, [&](std::int64_t visible) { return bytes(chunk.kv, visible); });
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
    ScoreTargets targets{.limit = out.covered.device, .exact = chunk.exact, .scores = estimate, .refined = refined, .exact_low = chunk.exact_low, .low = low};
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
      ffd_block_scales(form.quantizer, rows, chunk.kv, block_, scales, chunk.take<float>(origins * table), chunk.stream);
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

  /// The scales hang on how many full blocks a query sees: batches are cut into `rows` that agree in it, each with its own scales.
  const float* sequence_scales(const CudaChunk& chunk, const RowCounts& covered, const FfdQuantizer& quantizer, std::size_t table_elements,
                               DeviceRows& rows) const {
    const auto blocks_of = [&](int row) { return covered.host[static_cast<std::size_t>(row)] / block_; };
    const std::vector<RowBatch> batches = cut_batches(chunk, blocks_of);
    std::vector<int> origins, full_blocks;
    for (const RowBatch& batch : batches) {
      origins.push_back(batch.origin);
      full_blocks.push_back(blocks_of(batch.first_row));
    }
    const int count = static_cast<int>(batches.size());
    auto* scales = chunk.take<float>(batches.size() * static_cast<std::size_t>(padded_channels(chunk.kv.head_dim)));
    ffd_sequence_scales(quantizer, chunk.rows, chunk.kv, block_, chunk.upload(origins), chunk.upload(full_blocks), count, scales,
                        chunk.take<float>(table_elements), chunk.take<float>(table_elements), chunk.stream);
    rows = in_batches(chunk, batches);
    return scales;
  }

  /// Entry levels of sub-blocks, then of tokens.
  void rule(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const {
    const int settings = static_cast<int>(grids.front().values.size()), num_rows = chunk.rows.num_rows;
    Level* levels = chunk.take_levels();
    out.levels = levels;
    out.level_run = sub_block_;
    float *gap_exact = chunk.take<float>(static_cast<std::size_t>(num_rows)), *gap_thumbnail = chunk.take<float>(static_cast<std::size_t>(num_rows)),
          *gap_all = chunk.take<float>(static_cast<std::size_t>(num_rows));
    float* keep_ratio = chunk.take<float>(static_cast<std::size_t>(num_rows) * static_cast<std::size_t>(settings));
    out.row_metrics = {gap_exact, gap_thumbnail, gap_all};
    out.setting_metrics = {keep_ratio};

    const DeviceArena::Scope scope(*chunk.arena);
    const RowCounts parts(chunk, [&](std::int64_t visible) { return visible / block_ * (block_ / sub_block_); });
    const std::int64_t stride = std::max(1, parts.max);
    const auto take_parts = [&]<class T>(T*) { return chunk.take<T>(static_cast<std::size_t>(num_rows * stride)); };
    float* best = take_parts(static_cast<float*>(nullptr));
    float* best_exact = take_parts(static_cast<float*>(nullptr));
    Segments segments{out.estimate, chunk.rows.stride, out.covered.device, sub_block_, parts.device, num_rows, parts.max};
    segment_maxima(segments, best, stride, chunk.stream);
    segments.values = chunk.exact;
    segment_maxima(segments, best_exact, stride, chunk.stream);
    auto* peak = chunk.take<double>(static_cast<std::size_t>(num_rows));
    float* largest = chunk.take<float>(static_cast<std::size_t>(num_rows));
    const int per_block = block_ / sub_block_;
    const auto ends = [&](int blocks) { return static_cast<int>(std::min<std::int64_t>(parts.max, static_cast<std::int64_t>(blocks) * per_block)); };
    peak_kernel<<<num_rows, kPeakThreads, 0, chunk.stream>>>({best, best_exact, stride, parts.device, chunk.exact_max, ends(sink_blocks_),
                                                              ends(local_blocks_), pseudo_max_, scans_exactly_, peak, largest, gap_exact,
                                                              gap_thumbnail, gap_all});
    ATTEST_CUDA_LAUNCHED(peak_kernel);

    Level* part_levels = take_parts(static_cast<Level*>(nullptr));
    const RowValues values{best, stride, parts.device, num_rows, parts.max};
    switch (rule_) {
      case Rule::topdelta:
        threshold_item_levels(values, peak, chunk.rows.query,
                              query_settings<double>(chunk, grids, [&](double delta, std::int64_t) { return natural(delta, chunk.transform); }),
                              part_levels, chunk.stream);
        break;
      case Rule::topk: {
        if (union_) group_maxima(values, chunk.rows.group, best, chunk.stream);
        const auto n = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
          const auto all = static_cast<double>(visible / block_ * per_block);
          return static_cast<int>(std::min(all, std::max(1.0, std::floor(budget / sub_block_))));
        });
        top_n_item_levels(sort_rows(values, *chunk.arena, chunk.stream), values, chunk.rows.query, n, part_levels, stride, chunk.stream);
        break;
      }
      case Rule::topp: {
        segments.values = out.estimate;
        segment_masses(segments, largest, best, stride, chunk.stream);
        const auto shares = query_settings<double>(chunk, grids, [](double p, std::int64_t) { return p; });
        top_p_item_levels(sort_rows(values, *chunk.arena, chunk.stream), values, false, chunk.rows.query, shares, part_levels, stride, chunk.stream);
        break;
      }
    }
    if (union_) least_group_levels(part_levels, stride, parts.device, parts.max, num_rows, chunk.rows.group, chunk.stream);
    level_shares(part_levels, stride, parts.device, num_rows, settings, keep_ratio, chunk.stream);
    expand_levels(chunk.rows, part_levels, stride, sub_block_, out.covered.device, levels, chunk.stream);
  }

  double natural(double delta, const ScoreTransform& transform) const {
    return delta_unit_ == DeltaUnit::log2 ? delta * std::numbers::ln2 : delta_unit_ == DeltaUnit::unscaled ? delta * transform.scale : delta;
  }

  IoCost bytes(const DeviceKeyValues& kv, std::int64_t visible) const {
    const double d = kv.head_dim, dv = kv.value_dim, f = static_cast<double>(visible / block_), b = block_;
    const double tail = static_cast<double>(visible) - f * b, tail_bytes = tail * dense_token_bytes(kv);
    if (scans_exactly_) return {.fixed = f * b * 2 * d + tail_bytes, .per_kept_token = 2 * dv, .free_tokens = tail};
    const double r = quantizer_.residual == FfdResidual::exact ? 2 : quantizer_.residual == FfdResidual::none ? 0 : 1;
    const double scan = f * b * d * quantizer_.bits / 8.0 + (scale_per_sequence_ ? 2 * d : 2 * d * f);
    return {.fixed = scan + tail_bytes, .per_kept_token = r * d + 2 * dv, .free_tokens = tail};
  }

  FfdQuantizer quantizer_;
  int block_, sub_block_, sink_blocks_, local_blocks_;
  bool scale_per_sequence_, union_, scans_exactly_;
  PseudoMax pseudo_max_;
  DeltaUnit delta_unit_;
  Rule rule_;
};

}  // namespace

std::unique_ptr<CudaSelector> make_cuda_ffd(OptionReader& reader) { return std::make_unique<CudaFfd>(reader); }

}  // namespace attest
