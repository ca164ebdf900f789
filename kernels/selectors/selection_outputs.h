// What a selection leads to on the CPU: the outputs of every setting, and the number of tokens that each reads.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/setting_outputs.h"
#include "kernels/base/kv_head.h"
#include "kernels/base/row_matrix.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// Attends with the scores and values of the selection; sinks and mean values are included. exact [rows, length]: the
/// exact scores.
void selection_outputs(const KvHead& head, const RowMatrix<double>& exact, const Selection& selection, int settings,
                       std::vector<SettingOutputs>& out);

/// [S] tokens that any query head of the group keeps for query `query`.
std::vector<std::int64_t> tokens_kept(const KvHead& head, const Selection& selection, int query, int settings);

}  // namespace attest
