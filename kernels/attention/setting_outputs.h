// One pass over K and V for every setting of a sweep: each token goes into the online-softmax accumulator of its entry
// level, and a prefix merge over levels then yields output and log-sum-exp of every setting.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kv_head.h"
#include "kernels/level.h"
#include "kernels/row_matrix.h"

namespace attest {

/// Values that a selector's computer reads in place of the exact ones: query n reads tokens 0 .. count[n]-1 from
/// `values`.
struct ApproximateValues {
  const float* values = nullptr;        ///< [length, Dv]; null: all are exact
  std::span<const std::int64_t> count;  ///< [num_queries]
};

/// Attention output and log-sum-exp of one row for every setting: o = sum_{j in I} softmax_I(s')_j v'_j,
/// LSE = log sum_{j in I} exp(s'_j), I the tokens with level <= setting.
struct SettingOutputs {
  int num_settings = 0;
  int value_dim = 0;
  std::vector<double> output;  ///< [S, Dv]; zero where nothing is kept
  std::vector<double> lse;     ///< [S]; -inf where nothing is kept

  std::span<const double> output_of(int setting) const {
    return {output.data() + static_cast<std::size_t>(setting) * static_cast<std::size_t>(value_dim),
            static_cast<std::size_t>(value_dim)};
  }
};

/// scores [rows, length] s', levels [rows, length] each <= num_settings; row r is read for its visible tokens only.
/// Sums in double, tokens in ascending order within a level: a row's result does not depend on the rows beside it.
void accumulate_settings(const KvHead& head, const RowMatrix<double>& scores, const RowMatrix<Level>& levels,
                         const ApproximateValues& approximate, int num_settings, std::vector<SettingOutputs>& out);

}  // namespace attest
