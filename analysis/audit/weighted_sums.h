// Products of weights and values: sums over tokens for many columns at once, of rows at any stride. (Those of a study,
// in kernels/attention/setting_outputs.cpp, are of aligned rows with padded channels.)
#pragma once

#include <cstdint>
#include <vector>

namespace attest {

/// sums[c][d] += sum_t weights[c][t] values[t][d]. weights [columns, count] are rows `stride` doubles apart; values
/// [count, dim] are rows `value_stride` apart; sums [columns, dim]. The order of a sum does not depend on `columns`.
void add_weighted(const double* weights, std::int64_t columns, std::int64_t stride, const double* values,
                  std::int64_t count, std::int64_t dim, std::int64_t value_stride, double* sums);

}  // namespace attest
