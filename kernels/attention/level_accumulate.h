// One pass over K and V for every setting of a sweep: each token goes into the online-softmax accumulator of its entry
// level, and a prefix merge over levels then yields output and log-sum-exp of every setting.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/row_matrix.h"

namespace attest {

/// First index of an ascending settings grid that keeps a token; the number of settings where none does.
using Level = std::uint16_t;

/// The values that a selector's computer reads: the first `num_approximate` tokens from `approximate`, the rest exact.
struct ValueRows {
  int value_dim = 0;
  const float* exact = nullptr;        ///< [length, Dv]
  const float* approximate = nullptr;  ///< [length, Dv]; may be null
  std::int64_t num_approximate = 0;
};

/// Attention output and log-sum-exp of one row for every setting: o = sum_{j in I} softmax_I(s')_j v'_j,
/// LSE = log sum_{j in I} exp(s'_j), I the tokens with level <= setting.
struct SettingOutputs {
  int num_settings = 0;
  int value_dim = 0;
  std::vector<double> output;  ///< [S, Dv]; zero where nothing is kept
  std::vector<double> lse;     ///< [S]; -inf where nothing is kept

  std::span<const double> output_of(int setting) const {
    return {output.data() + static_cast<std::size_t>(setting) * value_dim, static_cast<std::size_t>(value_dim)};
  }
};

/// scores [length] s', levels [length] each <= num_settings. Sums in double, tokens in ascending order within a level.
void accumulate_settings(std::span<const double> scores, std::span<const Level> levels, const ValueRows& values,
                         int num_settings, SettingOutputs& out);

}  // namespace attest
