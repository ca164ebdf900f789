// Outputs in which the mean value stands in for what was dropped (SparQ, appendix A).
#pragma once

#include <vector>

#include "kernels/attention/setting_outputs.h"
#include "kernels/kv_head.h"
#include "kernels/row_matrix.h"

namespace attest {

/// outputs[r] of every setting i becomes a output + (1 - a) mean(v), a = shares[r][i] and the mean over the keys that
/// row r sees. shares [rows, S].
void blend_mean_values(const KvHead& head, const RowMatrix<double>& shares, std::vector<SettingOutputs>& outputs);

}  // namespace attest
