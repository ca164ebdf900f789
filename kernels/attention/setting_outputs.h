// Outputs of all settings of a sweep from one pass over K and V. Each token is added to the online-softmax accumulator
// of its entry level. A prefix merge over levels then gives output and log-sum-exp of every setting.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/base/kv_head.h"
#include "kernels/base/level.h"
#include "kernels/base/row_matrix.h"

namespace attest {

/// Writes values [count, Dv] of tokens first .. first + count - 1 to rows that are `stride` doubles apart.
using ValueRows = std::function<void(std::int64_t first, std::int64_t count, double* out, std::int64_t stride)>;

/// Values that a selector uses instead of the exact values: query n reads tokens 0 .. count[n]-1 from `values`, and the
/// others from `stored`, if it is not empty.
struct ApproximateValues {
  const float* values = nullptr;        ///< [length, Dv]; or null
  std::span<const std::int64_t> count;  ///< [num_queries]
  ValueRows stored = {};                ///< makes them tile by tile; or empty: they are exact
};

/// Attention output and log-sum-exp of one row for every setting; I is the set of tokens with level <= setting:
///   o = sum_{j in I} softmax_I(s')_j v'_j
///   LSE = log sum_{j in I} exp(s'_j)
struct SettingOutputs {
  int num_settings = 0;
  int value_dim = 0;
  std::vector<double> output;  ///< [S, Dv]; zero if no token is kept
  std::vector<double> lse;     ///< [S]; -inf if no token is kept

  std::span<const double> output_of(int setting) const {
    return {output.data() + static_cast<std::size_t>(setting) * static_cast<std::size_t>(value_dim),
            static_cast<std::size_t>(value_dim)};
  }
};

/// scores [rows, length] are s'; levels [rows, length] are <= num_settings. Only the visible tokens of a row are read.
/// Sums are in double, over tokens in ascending order within a level, so a row's result does not depend on other rows.
void accumulate_settings(const KvHead& head, const RowMatrix<double>& scores, const RowMatrix<Level>& levels,
                         const ApproximateValues& approximate, int num_settings, std::vector<SettingOutputs>& out);

}  // namespace attest
