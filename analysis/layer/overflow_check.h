// Finds numbers that are too large to be studied, on the CPU.
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

/// The same for the scores that a selector made of its own: its estimate, and the scores that it reads. `exact`: those
/// of the dump, which have been checked. `index`: of the selector in the study.
void check_selection(const KvHeadBatch& batch, const KvHead& head, const RankedScores& exact, const Selector& selector,
                     const Selection& selection, std::size_t index);

/// The same for the first row with an output that is NaN or infinite.
void check_outputs(const KvHeadBatch& batch, const KvHead& head, const std::vector<SettingOutputs>& outputs,
                   const Overflow& where);

}  // namespace attest
