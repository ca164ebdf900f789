// The study of one layer on the CPU: the reference path, parallel over KV heads and queries.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "analysis/layer/kv_head_buffers.h"
#include "analysis/layer/layer_amax.h"
#include "analysis/layer/layer_results_builder.h"
#include "analysis/layer/layer_study.h"
#include "analysis/layer/overflow_check.h"
#include "analysis/metrics/output_fidelity.h"
#include "analysis/results/axes.h"
#include "dumps/base/parallel_for.h"
#include "kernels/attention/scores.h"
#include "kernels/attention/sinks.h"
#include "kernels/selectors/exact.h"
#include "kernels/selectors/selection_outputs.h"

namespace attest {
namespace {

/// Buffers that one thread reuses between tasks.
struct Workspace {
  KvHeadBuffers buffers;
  RankedScores exact;
  RowMatrix<double> probabilities;
  std::vector<ExactRow> rows;
  std::vector<SettingOutputs> exact_outputs, outputs;
  std::vector<std::vector<std::uint32_t>> span_tokens;  // [num_queries]
  Selection selection;
};

class CpuLayerStudy final : public LayerStudy {
 public:
  CpuLayerStudy(const Study& study, int threads, std::span<const Metric> metrics)
      : study_(study), metrics_(metrics), workspaces_(static_cast<std::size_t>(threads)) {}

  LayerResults run(const AttentionLayer& layer) override {
    for (const StudySelector& s : study_.selectors) s.selector->check(layer.shape.kv());
    LayerResultsBuilder builder(study_, metrics_, layer);
    for (Workspace& w : workspaces_) w.buffers.begin_layer();
    const std::vector<KvHeadBatch> batches = kv_head_batches(layer);
    const bool needs_amax =
        std::ranges::any_of(study_.selectors, [](const auto& s) { return s.selector->needs_amax(); });
    weights_ = head_weights(layer.head_gradient, layer.shape.num_query_heads);
    amax_ = needs_amax ? layer_amax(layer, static_cast<int>(workspaces_.size())) : LayerAmax();
    try {
      parallel_for(static_cast<int>(workspaces_.size()), batches.size(), [&](int worker, std::size_t i) {
        run_batch(layer, batches[i], workspaces_[static_cast<std::size_t>(worker)], builder);
      });
    } catch (const LayerOverflow& overflow) {
      LayerResults nothing;
      nothing.defect = describe(overflow.where, study_, layer);
      return nothing;
    }
    return builder.finish();
  }

  std::string device() const override {
    return "CPU, " + std::to_string(workspaces_.size()) + (workspaces_.size() == 1 ? " thread" : " threads");
  }

 private:
  void run_batch(const AttentionLayer& layer, const KvHeadBatch& batch, Workspace& w,
                 LayerResultsBuilder& builder) const {
    throw_if_stopped();
    KvHead head = w.buffers.load(layer, batch, stop_flag());
    head.key_amax = amax_.keys;
    head.value_amax = amax_.values;
    attend_exactly(layer, batch, head, w);
    const std::vector<ResultArray>& scores = builder.layout().scores;
    for (int r = 0; r < head.rows(); ++r)
      for (std::size_t a = 0; a < scores.size(); ++a)
        builder.score_cell(a, batch.first_query + r / head.group, batch.kv_head * head.group + r % head.group) =
            static_cast<float>(
                std::get<ScoreFunctions>(scores[a].metric->functions).cpu(w.rows[static_cast<std::size_t>(r)]));
    for (std::size_t s = 0; s < study_.selectors.size(); ++s) {
      const StudySelector& chosen = study_.selectors[s];
      const bool dense = builder.layout().selectors[s].dense_heads[static_cast<std::size_t>(batch.kv_head)];
      if (chosen.selector->monotone() || dense) {
        run_selector(batch, head, s, chosen.grid, 0, w, builder);
      } else {
        for (std::size_t i = 0; i < chosen.grid.size(); ++i)
          run_selector(batch, head, s, std::span(chosen.grid).subspan(i, 1), i, w, builder);
      }
    }
  }

  void attend_exactly(const AttentionLayer& layer, const KvHeadBatch& batch, const KvHead& head, Workspace& w) const {
    scores(head.queries, head.rows(), head.head_dim, head.keys, head.length, head.transform, w.exact.scores);
    check_scores(batch, head, w.exact.scores, head.visible, -kLargestScore, {.step = OverflowStep::score});
    w.exact.ranked = false;
    w.exact.rank(head.visible, head.group);
    w.probabilities.resize(head.rows(), head.length);
    w.rows.assign(static_cast<std::size_t>(head.rows()), {});
    w.span_tokens.clear();
    for (std::int64_t visible : head.visible)
      w.span_tokens.push_back(visible_span_tokens(layer, batch.first_key, visible));
    w.selection.reset(head, {}, 1);
    keep_all(head, w.selection);
    accumulate_settings(head, w.exact.scores, w.selection.levels, {}, 1, w.exact_outputs);
    check_outputs(batch, head, w.exact_outputs, {.step = OverflowStep::exact_output});
    for (int r = 0; r < head.rows(); ++r)
      w.rows[static_cast<std::size_t>(r)].keys_lse = w.exact_outputs[static_cast<std::size_t>(r)].lse[0];
    add_sinks(head, w.exact_outputs);
    for (int r = 0; r < head.rows(); ++r) {
      const std::int64_t visible = head.row_length(r);
      ExactRow& row = w.rows[static_cast<std::size_t>(r)];
      const SettingOutputs& output = w.exact_outputs[static_cast<std::size_t>(r)];
      row.scores = std::as_const(w.exact.scores).row(r, visible);
      row.order = std::as_const(w.exact.order).row(r, visible);
      row.output = output.output;
      row.lse = output.lse[0];
      row.max = row.scores[row.order[0]];
      if (!head.sinks.empty()) row.sink = head.sinks[static_cast<std::size_t>(r % head.group)];
      row.span_tokens = w.span_tokens[static_cast<std::size_t>(r / head.group)];
      row.sample_has_spans = !layer.spans.empty();
      const int query_head = batch.kv_head * head.group + r % head.group;
      if (!weights_.empty()) row.head_weight = weights_[static_cast<std::size_t>(query_head)];
      row.output_gradient = layer.output_gradient_of(batch.first_query + r / head.group, query_head);
      Eigen::Map<Eigen::ArrayXd, Eigen::Aligned64> p(w.probabilities.row(r), visible);
      p = (Eigen::Map<const Eigen::ArrayXd, Eigen::Aligned64>(row.scores.data(), visible) - row.keys_lse).exp();
      row.probabilities = std::as_const(w.probabilities).row(r, visible);
    }
  }

  /// Evaluates selector s at the settings of `grid`. grid[i] is setting first_setting + i in the results.
  void run_selector(const KvHeadBatch& batch, const KvHead& head, std::size_t s, std::span<const Setting> grid,
                    std::size_t first_setting, Workspace& w, LayerResultsBuilder& builder) const {
    head.throw_if_stopped();
    const Selector& selector = *study_.selectors[s].selector;
    const int settings = static_cast<int>(grid.size());
    const std::vector<AscendingGrid> grids = ascending_grids(selector, head, grid);
    Selection& selection = w.selection;
    select_checked(batch, head, w.exact, selector, grids, s, selection);
    const RankedScores* estimate = selection.estimate;
    if (estimate == &selection.own_estimate) selection.own_estimate.rank(selection.covered, head.group);
    if (estimate == &selection.stored) selection.stored.rank(head.visible, head.group);
    attend(head, selection, settings, w);
    check_outputs(batch, head, w.outputs, {.step = OverflowStep::output, .selector = s});
    std::vector<GroupReads> reads;
    for (int n = 0; n < head.num_queries; ++n) reads.push_back(group_reads(head, selection, n, settings));
    for (int r = 0; r < head.rows(); ++r) {
      head.throw_if_stopped();
      const auto n = static_cast<std::size_t>(r / head.group);
      const std::int64_t visible = head.visible[n], covered = selection.covered[n];
      SelectorRow row;
      row.exact = &w.rows[static_cast<std::size_t>(r)];
      row.num_settings = settings;
      row.levels = std::as_const(selection.levels).row(r, visible);
      row.outputs = &w.outputs[static_cast<std::size_t>(r)];
      row.reads = &reads[n];
      std::vector<double> deltas;
      for (double setting : grids[n].values) {
        const double delta = selector.natural_delta(setting, head.transform);
        deltas.push_back(std::isnan(delta) ? study_.salient_delta : delta);
      }
      row.salient_deltas = deltas;
      row.fixed_salient_delta = study_.salient_delta;
      row.lambdas = study_.lambdas;
      if (estimate != nullptr && first_setting == 0) {
        row.estimate = estimate->scores.row(r, covered);
        // If the estimate is the scores that are read, the order also lists tokens that the estimate does not cover.
        row.estimate_order = estimate->order.row(r, estimate == &selection.own_estimate ? covered : visible);
      }
      const RowPlace place{batch.first_query + r / head.group, batch.kv_head * head.group + r % head.group, r,
                           first_setting, grids[n].given_index};
      store(s, place, row, selection, estimate != nullptr && first_setting == 0, builder);
    }
  }

  /// Computes the outputs of every setting.
  static void attend(const KvHead& head, const Selection& selection, int settings, Workspace& w) {
    if (!selection.exact) {
      selection_outputs(head, w.exact.scores, selection, settings, w.outputs);
      return;
    }
    w.outputs = w.exact_outputs;
    for (SettingOutputs& outputs : w.outputs) {
      const std::vector<double> once = outputs.output;
      for (int i = 1; i < settings; ++i) outputs.output.insert(outputs.output.end(), once.begin(), once.end());
      outputs.lse.resize(static_cast<std::size_t>(settings), outputs.lse[0]);
      outputs.num_settings = settings;
    }
  }

  /// Bytes read and tokens kept by the group for query n, for every setting.
  static GroupReads group_reads(const KvHead& head, const Selection& selection, int n, int settings) {
    const std::int64_t visible = head.visible[static_cast<std::size_t>(n)];
    return {.cost = selection.io[static_cast<std::size_t>(n)],
            .kept_tokens = tokens_kept(head, selection, n, settings),
            .dense_bytes = dense_token_bytes(head) * static_cast<double>(visible)};
  }

  /// Position of a row and of its settings in the results.
  struct RowPlace {
    std::int64_t query;
    int head;  ///< query head within the layer
    int row;   ///< within the batch
    std::size_t first_setting;
    std::span<const int> given_index;  ///< of each ascending setting, relative to first_setting

    std::size_t given(std::size_t i) const { return first_setting + static_cast<std::size_t>(given_index[i]); }
  };

  void store(std::size_t s, const RowPlace& place, const SelectorRow& row, const Selection& selection,
             bool has_estimate, LayerResultsBuilder& builder) const {
    const SelectorLayout& layout = builder.layout().selectors[s];
    const auto put = [&](std::size_t a, std::span<const double> values) {
      const std::span<float> cells = builder.cells(s, a, place.query, place.head);
      const bool by_setting = has_settings(layout.arrays[a].info.axes);
      for (std::size_t i = 0; i < values.size(); ++i)
        cells[by_setting ? place.given(i) : i] = static_cast<float>(values[i]);
    };
    const auto settings = static_cast<std::size_t>(row.num_settings);
    std::vector<double> values;
    for (std::size_t a = 0; a < layout.first_own; ++a) {
      const ResultArray& array = layout.arrays[a];
      if (array.metric->needs.estimate && !has_estimate) continue;
      if (const auto* of_selector = array.functions<SelectorFunctions>()) {
        values.resize(has_settings(array.info.axes) ? settings : array.per_row);
        of_selector->cpu(row, values);
        put(a, values);
      } else if (const auto* of_layer = array.functions<LayerFunctions>()) {
        const std::span<HeadSums> sums = builder.head_sums(s, a, place.query, place.head);
        for (std::size_t i = 0; i < settings; ++i) sums[place.given(i)] = of_layer->of_head(row, static_cast<int>(i));
      }
    }
    if (builder.span_bits(s).words > 0) {
      std::vector<int> given;
      for (std::size_t i = 0; i < settings; ++i) given.push_back(static_cast<int>(place.given(i)));
      set_span_bits(row, given, builder.span_bits(s), place.query, place.head,
                    builder.layout().seen_span_tokens[static_cast<std::size_t>(place.query)].begin);
    }
    for (std::size_t m = 0; m < selection.own_metrics.size(); ++m) {
      const RowMatrix<double>& own = selection.own_metrics[m];
      put(layout.first_own + m, own.row(place.row, own.columns()));
    }
  }

  const Study& study_;
  const std::span<const Metric> metrics_;
  std::vector<Workspace> workspaces_;
  LayerAmax amax_;               ///< of the layer that is studied
  std::vector<double> weights_;  ///< of its heads; empty: it has none
};

}  // namespace

std::unique_ptr<LayerStudy> make_cpu_layer_study(const Study& study, int threads, std::span<const Metric> metrics) {
  return std::make_unique<CpuLayerStudy>(study, std::max(1, threads), metrics);
}

}  // namespace attest
