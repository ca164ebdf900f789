// The study of one layer on the CPU: the reference path, parallel over KV heads and queries.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/layer/kv_head_batches.h"
#include "analysis/layer/layer_results_builder.h"
#include "analysis/layer/layer_study.h"
#include "analysis/metrics/kept_set.h"
#include "analysis/metrics/scan_error.h"
#include "dumps/base/parallel_for.h"
#include "kernels/attention/scores.h"
#include "kernels/lane_sum.h"

namespace attest {
namespace {

constexpr int kMaxRows = 32;                     // rows that share one pass over the keys
constexpr std::int64_t kMaxBytes = 256ll << 20;  // of one [rows, length] matrix: bounds memory at a million tokens

/// What one thread keeps between tasks.
struct Workspace {
  int kv_head = -1;
  std::vector<float> keys, values, queries;
  RankedScores exact;
  RowMatrix<double> probabilities;
  std::vector<ExactRow> rows;
  RowMatrix<Level> all_kept;
  std::vector<SettingOutputs> exact_outputs, outputs;
  std::vector<std::vector<std::uint32_t>> span_tokens;  // [num_queries]
  Selection selection;
};

class CpuLayerStudy final : public LayerStudy {
 public:
  CpuLayerStudy(StudyOptions options, int threads)
      : options_(std::move(options)), workspaces_(static_cast<std::size_t>(threads)) {}

  LayerResults run(const AttentionLayer& layer) override {
    for (const StudySelector& s : options_.selectors) s.selector->check(layer.shape.head_dim, layer.shape.value_dim);
    LayerResultsBuilder builder(options_, layer);
    for (Workspace& w : workspaces_) w.kv_head = -1;
    const std::vector<KvHeadBatch> batches = kv_head_batches(layer, kMaxRows, kMaxBytes);
    parallel_for(static_cast<int>(workspaces_.size()), batches.size(), [&](int worker, std::size_t i) {
      run_batch(layer, batches[i], workspaces_[static_cast<std::size_t>(worker)], builder);
    });
    return builder.finish();
  }

  std::string device() const override {
    return "CPU, " + std::to_string(workspaces_.size()) + (workspaces_.size() == 1 ? " thread" : " threads");
  }

 private:
  /// Converts what the batch reads to float32; a KV head that the thread holds already is not converted again.
  KvHead load(const AttentionLayer& layer, const KvHeadBatch& batch, Workspace& w) const {
    const AttentionShape& shape = layer.shape;
    const auto d = static_cast<std::size_t>(shape.head_dim), dv = static_cast<std::size_t>(shape.value_dim);
    const auto tokens = static_cast<std::size_t>(layer.num_tokens), element = size_of(layer.element_type);
    const auto head = static_cast<std::size_t>(batch.kv_head);
    if (w.kv_head != batch.kv_head) {
      w.keys.resize(tokens * d);
      w.values.resize(tokens * dv);
      convert_to_float(layer.element_type, layer.k.data() + head * tokens * d * element, tokens * d, w.keys.data());
      convert_to_float(layer.element_type, layer.v.data() + head * tokens * dv * element, tokens * dv, w.values.data());
      w.kv_head = batch.kv_head;
    }
    const auto group = static_cast<std::size_t>(shape.group()), heads = static_cast<std::size_t>(shape.num_query_heads);
    w.queries.resize(batch.visible.size() * group * d);
    for (std::size_t n = 0; n < batch.visible.size(); ++n) {
      const std::size_t source = ((static_cast<std::size_t>(batch.first_query) + n) * heads + head * group) * d;
      convert_to_float(layer.element_type, layer.q.data() + source * element, group * d,
                       w.queries.data() + n * group * d);
    }
    return {.head_dim = shape.head_dim,
            .value_dim = shape.value_dim,
            .group = shape.group(),
            .num_queries = static_cast<int>(batch.visible.size()),
            .length = batch.visible.back(),
            .keys = w.keys.data() + static_cast<std::size_t>(batch.first_key) * d,
            .values = w.values.data() + static_cast<std::size_t>(batch.first_key) * dv,
            .queries = w.queries.data(),
            .visible = batch.visible,
            .element_type = layer.element_type,
            .transform = {layer.softmax_scale, layer.logit_softcap},
            .layer = layer.layer,
            .kv_head = batch.kv_head};
  }

  void run_batch(const AttentionLayer& layer, const KvHeadBatch& batch, Workspace& w,
                 LayerResultsBuilder& builder) const {
    const KvHead head = load(layer, batch, w);
    attend_exactly(layer, batch, head, w);
    for (int r = 0; r < head.rows(); ++r) {
      std::size_t index = 0;
      for (const ScoreMetric& metric : score_metrics())
        if (!metric.needs_spans || !layer.spans.empty())
          builder.score_cell(index++, batch.first_query + r / head.group, batch.kv_head * head.group + r % head.group) =
              static_cast<float>(metric.evaluate(w.rows[static_cast<std::size_t>(r)]));
    }
    for (std::size_t s = 0; s < options_.selectors.size(); ++s) {
      const StudySelector& study = options_.selectors[s];
      if (study.selector->monotone() || builder.layout(s).dense) {
        run_selector(batch, head, s, study.grid, 0, w, builder);
      } else {
        for (std::size_t i = 0; i < study.grid.size(); ++i)
          run_selector(batch, head, s, std::span(study.grid).subspan(i, 1), i, w, builder);
      }
    }
  }

  void attend_exactly(const AttentionLayer& layer, const KvHeadBatch& batch, const KvHead& head, Workspace& w) const {
    scores(head.queries, head.rows(), head.head_dim, head.keys, head.length, head.transform, w.exact.scores);
    w.exact.ranked = false;
    w.exact.rank(head.visible, head.group);
    w.probabilities.resize(head.rows(), head.length);
    w.rows.assign(static_cast<std::size_t>(head.rows()), {});
    w.span_tokens.clear();
    for (std::int64_t visible : head.visible)
      w.span_tokens.push_back(visible_span_tokens(layer, batch.first_key, visible));
    w.all_kept.resize(head.rows(), head.length);
    std::fill_n(w.all_kept.row(0), w.all_kept.rows() * w.all_kept.stride(), Level{0});
    accumulate_settings(head, w.exact.scores, w.all_kept, {}, 1, w.exact_outputs);
    for (int r = 0; r < head.rows(); ++r) {
      const std::int64_t visible = head.row_length(r);
      ExactRow& row = w.rows[static_cast<std::size_t>(r)];
      const SettingOutputs& output = w.exact_outputs[static_cast<std::size_t>(r)];
      row.scores = std::as_const(w.exact.scores).row(r, visible);
      row.order = std::as_const(w.exact.order).row(r, visible);
      row.output = output.output;
      row.lse = output.lse[0];
      row.max = row.scores[row.order[0]];
      row.span_tokens = w.span_tokens[static_cast<std::size_t>(r / head.group)];
      row.sample_has_spans = !layer.spans.empty();
      Eigen::Map<Eigen::ArrayXd, Eigen::Aligned64> p(w.probabilities.row(r), visible);
      p = (Eigen::Map<const Eigen::ArrayXd, Eigen::Aligned64>(row.scores.data(), visible) - row.lse).exp();
      row.probabilities = std::as_const(w.probabilities).row(r, visible);
    }
  }

  /// Evaluates the settings grid[0 ..] of selector s, which stand at first_setting .. in the results.
  void run_selector(const KvHeadBatch& batch, const KvHead& head, std::size_t s, std::span<const Setting> grid,
                    std::size_t first_setting, Workspace& w, LayerResultsBuilder& builder) const {
    const Selector& selector = *options_.selectors[s].selector;
    const bool dense = builder.layout(s).dense;
    const int settings = static_cast<int>(grid.size());
    std::vector<AscendingGrid> grids;
    for (std::int64_t visible : head.visible) grids.push_back(ascending(grid, visible));
    Selection& selection = w.selection;
    selection.reset(head, selector.row_metrics().size(), selector.setting_metrics().size(), settings);
    if (dense)
      keep_all(head, selection);
    else
      selector.select(head, w.exact, grids, selection);
    const RankedScores* estimate = selection.estimate;
    if (estimate == &selection.own_estimate) selection.own_estimate.rank(selection.covered, head.group);
    const std::vector<double> mean_values =
        selection.mean_value_share.empty() ? std::vector<double>{} : value_means(head);
    attend(head, selection, settings, w);
    for (int r = 0; r < head.rows(); ++r) {
      const auto n = static_cast<std::size_t>(r / head.group);
      const std::int64_t visible = head.visible[n], covered = selection.covered[n];
      const AscendingGrid& ascending_grid = grids[n];
      SelectorRow row;
      row.exact = &w.rows[static_cast<std::size_t>(r)];
      row.num_settings = settings;
      row.levels = std::as_const(selection.levels).row(r, visible);
      SettingOutputs& outputs = w.outputs[static_cast<std::size_t>(r)];
      if (!mean_values.empty()) blend_mean_value(selection, mean_values, head, r, outputs);
      row.outputs = &outputs;
      std::vector<double> deltas;
      for (double setting : ascending_grid.values) {
        const double delta = selector.natural_delta(setting, head.transform);
        deltas.push_back(std::isnan(delta) ? options_.salient_delta : delta);
      }
      row.salient_deltas = deltas;
      row.fixed_salient_delta = options_.salient_delta;
      row.lambdas = options_.lambdas;
      collect_kept_totals(row);
      if (estimate != nullptr && first_setting == 0) {
        row.estimate = estimate->scores.row(r, covered);
        // The order of exact scores may serve as an estimate's: it lists tokens beyond the coverage too.
        row.estimate_order = estimate->order.row(r, estimate == &w.exact ? visible : covered);
        collect_scan_errors(row);
      }
      store(batch, s, r, row, selection, ascending_grid, first_setting, estimate != nullptr && first_setting == 0,
            builder);
    }
    store_io(batch, head, s, grids, first_setting, selection, builder);
  }

  /// Outputs of every setting.
  static void attend(const KvHead& head, const Selection& selection, int settings, Workspace& w) {
    if (!selection.exact)
      return accumulate_settings(head, selection.read_scores == nullptr ? w.exact.scores : *selection.read_scores,
                                 selection.levels,
                                 {selection.approximate_values.empty() ? nullptr : selection.approximate_values.data(),
                                  selection.num_approximate},
                                 settings, w.outputs);
    w.outputs = w.exact_outputs;
    for (SettingOutputs& outputs : w.outputs) {
      const std::vector<double> once = outputs.output;
      for (int i = 1; i < settings; ++i) outputs.output.insert(outputs.output.end(), once.begin(), once.end());
      outputs.lse.resize(static_cast<std::size_t>(settings), outputs.lse[0]);
      outputs.num_settings = settings;
    }
  }

  static std::vector<double> value_means(const KvHead& head) {
    std::vector<double> means;
    for (std::int64_t visible : head.visible)
      for (int d = 0; d < head.value_dim; ++d)
        means.push_back(lane_sum(static_cast<std::size_t>(visible),
                                 [&](std::size_t j) {
                                   return static_cast<double>(
                                       head.values[static_cast<std::int64_t>(j) * head.value_dim + d]);
                                 }) /
                        static_cast<double>(visible));
    return means;
  }

  static void blend_mean_value(const Selection& selection, const std::vector<double>& means, const KvHead& head, int r,
                               SettingOutputs& outputs) {
    const double* mean =
        means.data() + static_cast<std::size_t>(r / head.group) * static_cast<std::size_t>(head.value_dim);
    for (int i = 0; i < outputs.num_settings; ++i) {
      const double share = selection.mean_value_share.row(r)[i];
      double* o = outputs.output.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(head.value_dim);
      for (int d = 0; d < head.value_dim; ++d) o[d] = share * o[d] + (1 - share) * mean[d];
    }
  }

  void store(const KvHeadBatch& batch, std::size_t s, int r, const SelectorRow& row, const Selection& selection,
             const AscendingGrid& grid, std::size_t first_setting, bool has_estimate,
             LayerResultsBuilder& builder) const {
    const int group = static_cast<int>(selection.levels.rows()) / static_cast<int>(batch.visible.size());
    const std::int64_t query = batch.first_query + r / group;
    const int head = batch.kv_head * group + r % group;
    const SelectorLayout& layout = builder.layout(s);
    const auto given = [&](std::size_t i) { return first_setting + static_cast<std::size_t>(grid.given_index[i]); };
    std::vector<double> values;
    for (std::size_t m = 0; m < layout.common.size(); ++m) {
      const SelectorMetric& metric = *layout.common[m];
      if (metric.needs_estimate && !has_estimate) continue;
      const std::span<float> cells = builder.cells(s, m, query, head);
      const bool per_setting = metric.axes == MetricAxes::query_head_setting;
      values.resize(per_setting ? static_cast<std::size_t>(row.num_settings) : cells.size());
      metric.evaluate(row, values);
      for (std::size_t i = 0; i < values.size(); ++i) cells[per_setting ? given(i) : i] = static_cast<float>(values[i]);
    }
    for (std::size_t m = 0; m < selection.row_metrics.size(); ++m)
      builder.cells(s, layout.first_row_metric + m, query, head)[0] =
          static_cast<float>(selection.row_metrics[m][static_cast<std::size_t>(r)]);
    for (std::size_t m = 0; m < selection.setting_metrics.size(); ++m)
      for (std::size_t i = 0; i < grid.values.size(); ++i)
        builder.cells(s, layout.first_setting_metric + m, query, head)[given(i)] =
            static_cast<float>(selection.setting_metrics[m].row(r)[i]);
    const std::span<const double> o = row.exact->output;
    const double exact_square = lane_sum(o.size(), [&](std::size_t d) { return o[d] * o[d]; });
    for (std::size_t i = 0; i < grid.values.size(); ++i) {
      const std::span<const double> a = row.outputs->output_of(static_cast<int>(i));
      builder.products(s, query, head)[given(i)] = {lane_sum(o.size(), [&](std::size_t d) { return a[d] * o[d]; }),
                                                    lane_sum(o.size(), [&](std::size_t d) { return a[d] * a[d]; }),
                                                    exact_square};
    }
  }

  /// io_ratio: the same for all heads of a group.
  void store_io(const KvHeadBatch& batch, const KvHead& head, std::size_t s, std::span<const AscendingGrid> grids,
                std::size_t first_setting, const Selection& selection, LayerResultsBuilder& builder) const {
    const std::size_t metric = builder.layout(s).io_ratio;
    for (int n = 0; n < head.num_queries; ++n) {
      const auto query = static_cast<std::size_t>(n);
      const std::int64_t visible = head.visible[query];
      const AscendingGrid& grid = grids[query];
      std::vector<std::int64_t> entering(grid.values.size() + 1,
                                         0);  // tokens by the first setting at which any head keeps them
      for (std::int64_t j = 0; j < visible; ++j) {
        Level least = selection.levels.row(n * head.group)[j];
        for (int h = 1; h < head.group; ++h) least = std::min(least, selection.levels.row(n * head.group + h)[j]);
        ++entering[least];
      }
      const IoCost& io = selection.io[query];
      const double dense_bytes = dense_token_bytes(head) * static_cast<double>(visible);
      std::int64_t kept = 0;
      for (std::size_t i = 0; i < grid.values.size(); ++i) {
        kept += entering[i];
        const double bytes = io.fixed + io.per_kept_token * (static_cast<double>(kept) - io.free_tokens);
        for (int h = 0; h < head.group; ++h)
          builder.cells(s, metric, batch.first_query + n,
                        batch.kv_head * head.group + h)[first_setting + static_cast<std::size_t>(grid.given_index[i])] =
              static_cast<float>(bytes / dense_bytes);
      }
    }
  }

  StudyOptions options_;
  std::vector<Workspace> workspaces_;
};

}  // namespace

std::unique_ptr<LayerStudy> make_cpu_layer_study(StudyOptions options, int threads) {
  return std::make_unique<CpuLayerStudy>(std::move(options), std::max(1, threads));
}

}  // namespace attest
