// Looks at every number once. Rows without a bad one, nearly all, cost a vectorised pass.
#include "analysis/layer/overflow_check.h"

#include <algorithm>
#include <cmath>

#include "kernels/selectors/exact.h"

namespace attest {
namespace {

/// Written so that a NaN is too large.
bool is_studied(double value, double lowest) { return value <= static_cast<double>(kLargestScore) && value >= lowest; }

bool all_studied(std::span<const double> values, double lowest) {
  unsigned bad = 0;  // no early exit, so that the loop vectorises
  for (double value : values) bad |= is_studied(value, lowest) ? 0u : 1u;
  return bad == 0;
}

LayerOverflow overflow_of_row(const KvHeadBatch& batch, const KvHead& head, int row, std::int64_t token,
                              Overflow where) {
  where.query = batch.first_query + row / head.group;
  where.query_head = batch.kv_head * head.group + row % head.group;
  where.token = token;
  return {where};
}

void check_selection(const KvHeadBatch& batch, const KvHead& head, const RankedScores& exact, const Selector& selector,
                     const Selection& selection, std::size_t index) {
  const RankedScores* estimate = selection.estimate;
  if (estimate != nullptr && estimate != &exact)
    check_scores(batch, head, estimate->scores, selection.covered, lowest_estimate(selector),
                 {.step = OverflowStep::estimate, .selector = index});
  if (selection.read_scores != nullptr && (estimate == nullptr || selection.read_scores != &estimate->scores))
    check_scores(batch, head, *selection.read_scores, head.visible, -kLargestScore,
                 {.step = OverflowStep::read_score, .selector = index});
}

}  // namespace

void check_scores(const KvHeadBatch& batch, const KvHead& head, const RowMatrix<double>& scores,
                  std::span<const std::int64_t> counts, double lowest, const Overflow& where) {
  for (int r = 0; r < head.rows(); ++r) {
    const std::span<const double> row = scores.row(r, counts[static_cast<std::size_t>(r / head.group)]);
    if (all_studied(row, lowest)) continue;
    const auto bad = std::ranges::find_if(row, [=](double value) { return !is_studied(value, lowest); });
    throw overflow_of_row(batch, head, r, bad - row.begin(), where);
  }
}

void select_checked(const KvHeadBatch& batch, const KvHead& head, const RankedScores& exact, const Selector& selector,
                    std::span<const AscendingGrid> grids, std::size_t index, Selection& selection) {
  selection.reset(head, selector.own_metrics(), static_cast<int>(grids.front().values.size()));
  if (selector.is_dense(head.layer, head.kv_head)) return keep_all(head, selection);
  selector.select(head, exact, grids, selection);
  check_selection(batch, head, exact, selector, selection, index);
}

void check_outputs(const KvHeadBatch& batch, const KvHead& head, const std::vector<SettingOutputs>& outputs,
                   const Overflow& where) {
  for (int r = 0; r < head.rows(); ++r)
    if (!std::ranges::all_of(outputs[static_cast<std::size_t>(r)].output, [](double x) { return std::isfinite(x); }))
      throw overflow_of_row(batch, head, r, 0, where);
}

}  // namespace attest
