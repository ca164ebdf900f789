// SparQ's mean-value correction (appendix A): the mean value replaces the dropped part of the output.
#pragma once

#include <vector>

#include "kernels/attention/setting_outputs.h"
#include "kernels/kv_head.h"
#include "kernels/row_matrix.h"

namespace attest {

/// Replaces the output of row r at setting i by a * output + (1 - a) * mean(v). a = shares[r][i]; the mean is over the
/// keys that row r sees. shares [rows, S].
void blend_mean_values(const KvHead& head, const RowMatrix<double>& shares, std::vector<SettingOutputs>& outputs);

}  // namespace attest
