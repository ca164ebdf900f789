// SparQ's mean-value correction (section 4): the mean value replaces the dropped part of the output.
#pragma once

#include <vector>

#include "kernels/attention/setting_outputs.h"
#include "kernels/base/kv_head.h"
#include "kernels/base/row_matrix.h"

namespace attest {

/// Replaces the output of row r at setting i by a * output + (1 - a) * mean(v). a = shares[r][i]; the mean is over the
/// keys that row r sees. shares [rows, S].
void blend_mean_values(const KvHead& head, const RowMatrix<double>& shares, std::vector<SettingOutputs>& outputs);

}  // namespace attest
