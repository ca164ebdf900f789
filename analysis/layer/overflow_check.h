// Finds numbers that are too large to be studied, on the CPU: in scores, in what a selector makes of them, in outputs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/layer/kv_head_batches.h"
#include "analysis/layer/overflow.h"
#include "kernels/attention/setting_outputs.h"
#include "kernels/base/kv_head.h"
#include "kernels/base/row_matrix.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// Thrown by the functions below; ends the work on a layer.
struct LayerOverflow {
  Overflow where;
};

/// Checks the first counts[query] tokens of every row. Throws LayerOverflow for the first score above kLargestScore,
/// below `lowest`, or NaN. Of `where`, step and selector are given.
void check_scores(const KvHeadBatch& batch, const KvHead& head, const RowMatrix<double>& scores,
                  std::span<const std::int64_t> counts, double lowest, const Overflow& where);

/// Fills `selection` with what the selector keeps, S settings of each grid, or with everything where the KV head is
/// dense. `exact`: the scores of the dump, checked, and ranked if the selector needs_exact_order(). The scores that the
/// selector makes of its own, its estimate and those that it reads, are checked. `index`: of the selector in the study.
void select_checked(const KvHeadBatch& batch, const KvHead& head, const RankedScores& exact, const Selector& selector,
                    std::span<const AscendingGrid> grids, std::size_t index, Selection& selection);

/// Throws LayerOverflow for the first row with an output that is NaN or infinite. Of `where`, step and selector are
/// given.
void check_outputs(const KvHeadBatch& batch, const KvHead& head, const std::vector<SettingOutputs>& outputs,
                   const Overflow& where);

}  // namespace attest
