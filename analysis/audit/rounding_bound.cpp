// The bound of rounding, and how an observed row fits a predicted one.
#include "analysis/audit/rounding_bound.h"

#include <algorithm>
#include <limits>

namespace attest {
namespace {

constexpr double kFloatUnit = std::numeric_limits<float>::epsilon();

double smallest_normal(ElementType type) { return type == ElementType::float16 ? 0x1p-14 : 0x1p-126; }

}  // namespace

RoundingBound::RoundingBound(ElementType layer, ElementType output, int value_dim, double roundings)
    : unit_(std::max({unit_of(layer), unit_of(output), kSmallestUnit})),
      roundings_(roundings),
      underflow_(smallest_normal(output) * unit_of(output) * std::sqrt(static_cast<double>(value_dim))) {}

double RoundingBound::of_output(const RowRounding& row) const {
  return std::min(kLargestBound, roundings_ * unit_ + kQueryRoundings * unit_ * row.product_noise +
                                     kScoreRoundings * kFloatUnit * (1 + row.peak));
}

double RoundingBound::of_lse(const RowRounding& row, double lse) const {
  return (kLseShare * roundings_ + kQueryRoundings * row.product_noise) * unit_ +
         kScoreRoundings * kFloatUnit * (1 + row.peak + std::fabs(lse));
}

RowFit fit_row(std::span<const float> observed, double observed_lse, std::span<const double> output, double lse,
               const RowRounding& rounding, const RoundingBound& bound) {
  double squares = 0;
  for (std::size_t d = 0; d < observed.size(); ++d) {
    const double difference = observed[d] - output[d];
    squares += difference * difference;
  }
  const double error = std::sqrt(squares), allowed = bound.of_output(rounding) * rounding.size + bound.underflow();
  RowFit fit{.error = rounding.size > 0 ? error / rounding.size
                      : error > 0       ? 1
                                        : 0,
             .bound = bound.of_output(rounding),
             .lse_difference = observed_lse - lse,
             .excess = error / allowed};
  if (!std::isnan(observed_lse))
    fit.excess = std::max(fit.excess, std::fabs(fit.lse_difference) / bound.of_lse(rounding, lse));
  if (std::isnan(error)) fit.excess = error;
  return fit;
}

}  // namespace attest
