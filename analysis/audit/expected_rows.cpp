// Exact attention and a selector's on a batch of rows, with what the bound of rounding takes of them.
#include "analysis/audit/expected_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "dumps/base/error.h"
#include "kernels/attention/scores.h"
#include "kernels/selectors/exact.h"
#include "kernels/selectors/selection_outputs.h"

namespace attest {
namespace {

RowRounding rounding_of(const KvHead& head, int row, std::span<const double> scores, const Level* levels,
                        const SettingOutputs& output, const double* value_squares) {
  RowRounding rounding;
  double largest = -INFINITY;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (levels[j] > 0) continue;
    largest = std::max(largest, scores[j]);
    rounding.peak = std::max(rounding.peak, std::fabs(scores[j]));
  }
  const float* query = head.queries + static_cast<std::int64_t>(row) * head.head_dim;
  double noise = 0, squares = 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (levels[j] > 0) continue;
    const double p = std::exp(scores[j] - output.lse[0]);
    noise += p * p * value_squares[j];
    if (scores[j] - largest < std::log(kKeyThatMatters)) continue;
    const double product = product_norm(query, head.keys + static_cast<std::int64_t>(j) * head.head_dim, head.head_dim);
    rounding.product_noise = std::max(rounding.product_noise, head.transform.scale * product);
  }
  for (const double x : output.output) squares += x * x;
  rounding.size = std::sqrt(std::max(noise, squares));
  return rounding;
}

}  // namespace

void ExpectedRows::begin_layer() {
  buffers_.begin_layer();
  kv_head_ = -1;
}

void ExpectedRows::run(const AttentionLayer& layer, const KvHeadBatch& batch, const LayerAmax& amax,
                       const AuditedSelector& audited, const KvStorage& keys, const std::atomic<bool>* stop) {
  KvHead head = buffers_.load(layer, batch, stop);
  head.key_amax = amax.keys;
  head.value_amax = amax.values;
  if (kv_head_ != batch.kv_head) {
    const float* values = head.values - batch.first_key * head.value_dim;
    value_squares_.assign(static_cast<std::size_t>(layer.num_tokens), 0.0);
    for (double& squares : value_squares_)
      for (int d = 0; d < head.value_dim; ++d, ++values) squares += static_cast<double>(*values) * *values;
    kv_head_ = batch.kv_head;
  }
  scores(head.queries, head.rows(), head.head_dim, head.keys, head.length, head.transform, scores_.scores);
  scores_.ranked = false;
  selection_.reset(head, {}, 1);
  keep_all(head, selection_);
  selection_outputs(head, scores_.scores, selection_, 1, outputs_);
  exact = predictions(head, scores_.scores, selection_.levels, outputs_);
  select(head, audited, layer, keys);
}

void ExpectedRows::select(KvHead head, const AuditedSelector& audited, const AttentionLayer& layer,
                          const KvStorage& keys) {
  const Selector& selector = audited.selector;
  std::vector<float> queries;
  if (keys.integer_products) {
    for (int r = 0; r < head.rows(); ++r) {
      const std::span query(head.queries + static_cast<std::int64_t>(r) * head.head_dim,
                            static_cast<std::size_t>(head.head_dim));
      const std::vector<float> read = read_query(keys, layer, query);
      queries.insert(queries.end(), read.begin(), read.end());
    }
    head.queries = queries.data();
  }
  selection_.reset(head, selector.own_metrics(), 1);
  if (selector.is_dense(head.layer, head.kv_head)) {
    keep_all(head, selection_);
  } else {
    if (selector.needs_exact_order()) scores_.rank(head.visible, head.group);
    selector.select(head, scores_, ascending_grids(selector, head, std::span(&audited.setting, 1)), selection_);
  }
  if (selection_.exact) {
    selected = exact;
    return;
  }
  selection_outputs(head, scores_.scores, selection_, 1, outputs_);
  selected = predictions(head, selection_.read_scores == nullptr ? scores_.scores : *selection_.read_scores,
                         selection_.levels, outputs_);
}

std::vector<RowPrediction> ExpectedRows::predictions(const KvHead& head, const RowMatrix<double>& scores,
                                                     const RowMatrix<Level>& levels,
                                                     const std::vector<SettingOutputs>& outputs) const {
  std::vector<RowPrediction> rows;
  for (int r = 0; r < head.rows(); ++r) {
    head.throw_if_stopped();
    const SettingOutputs& of_row = outputs[static_cast<std::size_t>(r)];
    RowPrediction& row = rows.emplace_back();
    row.output = of_row.output;
    row.lse = of_row.lse[0];
    row.rounding = rounding_of(head, r, scores.row(r, head.row_length(r)), levels.row(r), of_row,
                               value_squares_.data() + head.first_key);
    if (!std::isfinite(row.rounding.size + row.rounding.peak + row.lse))
      throw InputError(
          fmt::format("layer {}, query head {}, query at {}: its attention overflows, expected finite "
                      "scores and outputs",
                      head.layer, head.kv_head * head.group + r % head.group, head.first_key + head.row_length(r) - 1));
  }
  return rows;
}

}  // namespace attest
