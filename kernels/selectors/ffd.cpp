// ffd (Faster Flash Decoding): scans low-bit keys, keeps the sub-blocks that reach a threshold below a pseudo-maximum,
// and refines the kept keys with an 8-bit residual.
//   s^ = scale * q.k^ over the F = floor(L / B) full blocks, k^ the thumbnail (quantize/ffd_thumbnail.h)
//   m~ = max of s^ over the first `sink_blocks` and the last `local_blocks` full blocks
//   rule = topdelta: sub-block c is kept iff max_{j in c} s^_j >= m~ - delta
//   rule = topk: the max(1, floor(budget / sub_block)) sub-blocks with the largest max_{j in c} s^_j; ties: lower one
//   rule = topp: the fewest sub-blocks whose sums of softmax(s^) over the full blocks reach p
//   the tail of L mod B tokens is always attended exactly
//   s' = scale * (q.k^ + q.r) over kept blocks, exact values
// Source: Faster Than Flash, sections "Content-Aware Scanning", "Top-delta Selection Criterion", Algorithm 1;
// qluoluo/faster-flash-decoding.
//
// Bytes per KV head, where `kept` counts tokens of full blocks and r = 1 (fp8, int8), 0 (none), 2 (exact):
//   scan = thumbnail: F B D bits/8 + 2 D F (2 D for scale = sequence) + kept (r D + 2 Dv) + tail * 2(D + Dv)
//   scan = exact:     F B 2 D + kept * 2 Dv + tail * 2(D + Dv)
// Scales are counted as 16 bits each; the released cache stores them in 4 bytes.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dumps/base/error.h"
#include "kernels/attention/scores.h"
#include "kernels/base/lane_sum.h"
#include "kernels/base/row_matrix.h"
#include "kernels/rank/entry_levels.h"
#include "kernels/rank/group_policy.h"
#include "kernels/selectors/ffd_scan.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

/// Indices into kOwnMetrics.
enum OwnMetric : std::size_t { kGapExact, kGapThumbnail, kGapAll, kBlockKeepRatio };
constexpr MetricInfo kOwnMetrics[] = {
    {"pseudo_max_gap_exact",
     MetricAxes::query_head,
     "nats",
     Better::lower,
     "largest exact score of the full blocks minus the pseudo-maximum from exact scores",
     {.min = 0},
     "Faster Than Flash, Pseudo-Max Robustness"},
    {"pseudo_max_gap_thumbnail",
     MetricAxes::query_head,
     "nats",
     Better::lower,
     "largest exact score of the full blocks minus the pseudo-maximum from thumbnails; may be negative; 0 is best",
     {},
     "attest"},
    {"pseudo_max_gap_all",
     MetricAxes::query_head,
     "nats",
     Better::lower,
     "largest exact score of all visible keys minus the pseudo-maximum from exact scores",
     {},
     "attest"},
    {"block_keep_ratio",
     MetricAxes::query_head_setting,
     "ratio",
     Better::lower,
     "kept sub-blocks over all sub-blocks of the full blocks, after the GQA policy",
     {.min = 0, .max = 1},
     "Faster Than Flash, Sparsity Analysis",
     /*is_cost=*/true},
};

constexpr double kLowest = -std::numeric_limits<double>::infinity();

class Ffd final : public SelectorWith<FfdScan, make_cuda_ffd, FfdOptions> {
 public:
  explicit Ffd(OptionReader& reader) : SelectorWith(reader) {
    finish_with_settings_file(reader, setting_kind(), "rule=topdelta");
    if (block_ % sub_block_ != 0)
      throw UsageError(
          fmt::format("selector 'ffd': sub_block is {}, expected a divisor of block, which is {}", sub_block_, block_));
    if (sink_blocks_ + local_blocks_ == 0)
      throw UsageError(
          "selector 'ffd': sink_blocks and local_blocks are both 0, expected at least one block for the pseudo-max");
  }

  SettingKind setting_kind() const override {
    return rule_ == Rule::topdelta ? SettingKind::delta : rule_ == Rule::topk ? SettingKind::budget : SettingKind::p;
  }
  bool has_estimate() const override { return true; }
  std::string_view short_context(double, std::int64_t visible) const override {
    return full_blocks(visible) == 0 ? "keeps every key, unquantised," : std::string_view{};
  }
  std::span<const MetricInfo> own_metrics() const override { return kOwnMetrics; }
  double natural_delta(double setting, const ScoreTransform& transform) const override {
    return rule_ == Rule::topdelta ? natural(setting, transform) : Selector::natural_delta(setting, transform);
  }

  void select(const KvHead& head, const RankedScores& exact, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    for (std::size_t n = 0; n < out.covered.size(); ++n) out.covered[n] = full_blocks(head.visible[n]) * block_;
    scan(head, exact, out);
    for (int n = 0; n < head.num_queries; ++n) {
      select_query(head, exact.scores, n, grids[static_cast<std::size_t>(n)], out);
      out.io[static_cast<std::size_t>(n)] = bytes(head.shape(), head.visible[static_cast<std::size_t>(n)]);
    }
  }

 private:
  /// Computes the estimate and the scores that the output is computed from.
  void scan(const KvHead& head, const RankedScores& exact, Selection& out) const {
    if (scans_exactly_) {
      out.estimate = &exact;
      return;
    }
    out.own_estimate.scores.resize(head.rows(), head.length);
    out.estimate = &out.own_estimate;
    const bool refines = quantizer_.residual == FfdResidual::fp8 || quantizer_.residual == FfdResidual::int8;
    if (refines) {
      out.own_read_scores.resize(head.rows(), head.length);
      out.read_scores = &out.own_read_scores;
    } else if (quantizer_.residual == FfdResidual::none) {
      out.read_scores = &out.own_estimate.scores;
    }
    if (!scale_per_sequence_) {
      scan_blocks(head, 0, head.num_queries, refines, out);
    } else {  // the scales depend on the number of full blocks; queries with the same number share them
      for (int first = 0; first < head.num_queries;) {
        int last = first + 1;
        while (last < head.num_queries &&
               out.covered[static_cast<std::size_t>(last)] == out.covered[static_cast<std::size_t>(first)])
          ++last;
        scan_blocks(head, first, last, refines, out);
        first = last;
      }
    }
    if (out.read_scores == nullptr) return;
    RowMatrix<double>& read = refines ? out.own_read_scores : out.own_estimate.scores;
    for (int r = 0; r < head.rows(); ++r) {  // the tail is not quantised
      const std::int64_t covered = out.covered[static_cast<std::size_t>(r / head.group)];
      std::copy(exact.scores.row(r) + covered, exact.scores.row(r) + head.row_length(r), read.row(r) + covered);
    }
  }

  /// Quantises and scores the full blocks for queries [first, last). Every row gets the scores of all blocks that the
  /// last of these queries covers. The caller overwrites the scores beyond a row's own coverage.
  void scan_blocks(const KvHead& head, int first, int last, bool refines, Selection& out) const {
    FfdQuantizer quantizer = quantizer_;
    quantizer.element_type = head.element_type;
    const int dim = head.head_dim, rows = (last - first) * head.group;
    const std::int64_t covered = out.covered[static_cast<std::size_t>(last - 1)];
    const float* queries = head.queries + static_cast<std::int64_t>(first) * head.group * dim;
    std::vector<float> scales(static_cast<std::size_t>(dim));
    std::vector<float> thumbnail(static_cast<std::size_t>(block_ * dim)), residual(refines ? thumbnail.size() : 0);
    if (scale_per_sequence_) ffd_scales(quantizer, head.keys, covered, dim, scales);
    RowMatrix<double>&estimate = out.own_estimate.scores, &read = out.own_read_scores;
    const int row = first * head.group;
    head.each_tile(covered, block_, [&](std::int64_t begin, std::int64_t count) {
      const float* keys = head.keys + begin * dim;
      if (!scale_per_sequence_) ffd_scales(quantizer, keys, count, dim, scales);
      ffd_quantize(quantizer, keys, count, dim, scales, thumbnail.data(), refines ? residual.data() : nullptr);
      scores_into(queries, rows, dim, thumbnail.data(), count, head.transform, estimate.row(row) + begin,
                  estimate.stride());
      if (refines)
        scores_of_sum_into(queries, rows, dim, thumbnail.data(), residual.data(), count, head.transform,
                           read.row(row) + begin, read.stride());
    });
  }

  void select_query(const KvHead& head, const RowMatrix<double>& exact, int n, const AscendingGrid& grid,
                    Selection& out) const {
    const std::int64_t visible = head.visible[static_cast<std::size_t>(n)],
                       covered = out.covered[static_cast<std::size_t>(n)];
    const std::int64_t parts = covered / sub_block_;
    const int settings = static_cast<int>(grid.values.size()), first = n * head.group;
    const RowMatrix<double>& estimate = out.estimate->scores;
    RowMatrix<double> best = sub_block_maxima(estimate, first, head.group, parts);
    RowMatrix<Level> levels;
    levels.resize(head.group, parts);
    if (parts > 0) {
      if (rule_ == Rule::topk && union_) take_group_maximum(best, 0, head.group, parts);
      for (int h = 0; h < head.group; ++h) {
        gap_metrics(exact.row(first + h), estimate.row(first + h), covered, visible, first + h, out);
        std::ranges::fill(levels.row(h, parts), static_cast<Level>(settings));
        rule_levels(exact.row(first + h), estimate.row(first + h), covered, best.row(h, parts), grid, head.transform,
                    levels.row(h, parts));
      }
      if (union_) take_group_minimum(levels, 0, head.group, parts);
    }
    for (int h = 0; h < head.group; ++h) {
      store_levels(levels.row(h, parts), out.levels.row(first + h, visible));
      for (int i = 0; i < settings && parts > 0; ++i)
        out.own_metrics[kBlockKeepRatio].row(first + h)[i] =
            static_cast<double>(std::ranges::count_if(levels.row(h, parts), [i](Level l) { return l <= i; })) /
            static_cast<double>(parts);
    }
  }

  /// [group, parts] the largest estimate of every sub-block in rows [first, first + group).
  RowMatrix<double> sub_block_maxima(const RowMatrix<double>& estimate, int first, int group,
                                     std::int64_t parts) const {
    RowMatrix<double> best;
    best.resize(group, parts);
    for (int h = 0; h < group; ++h)
      for (std::int64_t c = 0; c < parts; ++c)
        best.row(h)[c] = max_over(estimate.row(first + h), c * sub_block_, (c + 1) * sub_block_);
    return best;
  }

  /// Every token gets the level of its sub-block, and the tail level 0.
  void store_levels(std::span<const Level> of_parts, std::span<Level> tokens) const {
    auto to = tokens.begin();
    for (const Level level : of_parts) to = std::fill_n(to, sub_block_, level);
    std::fill(to, tokens.end(), Level{0});
  }

  void rule_levels(const double* exact, const double* estimate, std::int64_t covered, std::span<const double> best,
                   const AscendingGrid& grid, const ScoreTransform& transform, std::span<Level> levels) const {
    switch (rule_) {
      case Rule::topdelta: {
        const double peak = pseudo_max(exact, estimate, covered);
        std::vector<double> thresholds;
        for (double setting : grid.values) thresholds.push_back(peak - natural_delta(setting, transform));
        return threshold_levels(best, thresholds, levels);
      }
      case Rule::topk: {
        std::vector<std::int64_t> counts;
        for (double budget : grid.values)
          counts.push_back(static_cast<std::int64_t>(kept_sub_blocks(budget, static_cast<double>(best.size()))));
        return top_n_levels(best, counts, levels);
      }
      case Rule::topp: {
        const double peak = lane_max(best.size(), kLowest, [&](std::size_t c) { return best[c]; });
        std::vector<double> mass(best.size());
        for (std::size_t c = 0; c < mass.size(); ++c)
          mass[c] = lane_sum(static_cast<std::size_t>(sub_block_), [&](std::size_t t) {
            return std::exp(estimate[c * static_cast<std::size_t>(sub_block_) + t] - peak);
          });
        return top_p_levels(mass, grid.values, levels);
      }
    }
  }

  void gap_metrics(const double* exact, const double* estimate, std::int64_t covered, std::int64_t visible, int row,
                   Selection& out) const {
    const double full_max = max_over(exact, 0, covered), exact_boundary = sink_local_max(exact, covered);
    out.own_metrics[kGapExact].row(row)[0] = full_max - exact_boundary;
    if (!scans_exactly_) out.own_metrics[kGapThumbnail].row(row)[0] = full_max - sink_local_max(estimate, covered);
    out.own_metrics[kGapAll].row(row)[0] = std::max(full_max, max_over(exact, covered, visible)) - exact_boundary;
  }
};

}  // namespace

extern const SelectorInfo ffd_info;
const SelectorInfo ffd_info{
    .name = "ffd",
    .summary = "Faster Flash Decoding: 2-bit key scan, top-delta rule below a pseudo-maximum, 8-bit residual",
    .io_bytes = "F B D bits/8 + 2DF + kept (rD + 2Dv) + tail 2(D+Dv)",
    .source = "Faster Than Flash, sections 3.1-3.3 and Algorithm 1; qluoluo/faster-flash-decoding",
    .studied_by_default = true,
    .make = make_from_options<Ffd>};

}  // namespace attest
