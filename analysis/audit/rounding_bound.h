// How far an engine's output may be from what attention predicts by rounding alone, from element types.
//
// Errors are norms over the channels of a row (query, query head), relative to the size of the row:
//   size = max(norm2(o), n),  n = sqrt(sum_j p_j^2 norm2(v_j)^2)
// n is what independent relative errors of 1 in every probability add up to. Where values cancel out, it and not the
// output is what errors of probabilities are compared with.
//
//   bound = kRoundings u + kQueryRoundings u c + kScoreRoundings e (1 + max_j |s_j|),  at most kLargestBound
//
// u: unit of the wider of two types, that of q, k and v and that of the output. A kernel rounds probabilities and the
//    output, each by half a unit at most, and reads values from a 16-bit tile that a cache was decoded to; an output
//    that is rounded once more, for another type, adds half a unit.
// c: scale sqrt(sum_i (q_i k_i)^2), the largest of the keys that matter: what independent relative errors of 1 in every
//    product add up to. A kernel may round queries once more, when it scales them or takes them to the type of the
//    keys.
// e: unit of float32, in which kernels make scores.
//
// A log-sum-exp may differ by kQueryRoundings u c + kLseShare kRoundings u + kScoreRoundings e (1 + max_j |s_j| +
// |LSE|) nats: its sum may be of probabilities in 16 bits, half a unit.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "dumps/element_type.h"

namespace attest {

inline constexpr double kRoundings = 2;
inline constexpr double kQueryRoundings = 0.25;  ///< rounding to a unit u makes a relative error of 0.2 u, rms
inline constexpr double kLseShare = 0.25;
inline constexpr double kScoreRoundings = 32;
/// GPUs may multiply float32 matrices in TF32, and a float32 model may have a float16 cache: both have 11 bits.
inline constexpr double kSmallestUnit = 0x1p-10;
inline constexpr double kLargestBound = 0.5;  ///< an output of zeros has the error 1

/// Difference of 1 and the next number.
constexpr double unit_of(ElementType type) {
  return type == ElementType::bfloat16 ? 0x1p-7 : type == ElementType::float16 ? 0x1p-10 : 0x1p-23;
}

/// What the bound takes of a predicted row.
struct RowRounding {
  double size = 0;
  double peak = 0;           ///< max_j |s_j|
  double product_noise = 0;  ///< c
};

class RoundingBound {
 public:
  /// roundings: kRoundings, or as many as the user allows.
  RoundingBound(ElementType layer, ElementType output, int value_dim, double roundings);

  double unit() const { return unit_; }
  double roundings() const { return roundings_; }
  /// Relative to row.size.
  double of_output(const RowRounding& row) const;
  /// A result below the normal numbers of the output's type is rounded to a multiple of the smallest one.
  double underflow() const { return underflow_; }
  double of_lse(const RowRounding& row, double lse) const;

 private:
  double unit_, roundings_, underflow_;
};

/// An observed row beside a predicted one.
struct RowFit {
  double error = 0;           ///< norm of the difference over the predicted row's size
  double bound = 0;           ///< what rounding explains of it
  double lse_difference = 0;  ///< observed - predicted; NaN if none was recorded
  double excess = 0;          ///< the largest of error / bound and |lse_difference| / its bound

  bool explained() const { return excess <= 1; }  ///< NaN is not
};

/// `observed_lse` NaN: none was recorded.
RowFit fit_row(std::span<const float> observed, double observed_lse, std::span<const double> output, double lse,
               const RowRounding& rounding, const RoundingBound& bound);

/// norm2(q_i k_i), over channels.
inline double product_norm(const float* query, const float* key, int head_dim) {
  double sum = 0;
  for (int i = 0; i < head_dim; ++i) {
    const double product = static_cast<double>(query[i]) * key[i];
    sum += product * product;
  }
  return std::sqrt(sum);
}

/// Keys whose probability is at least this times the largest one matter to the bound's c.
inline constexpr double kKeyThatMatters = 0x1p-10;

}  // namespace attest
