// Logistic regression with a ridge penalty: the chance of a failure from a few numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace attest {

struct LogisticModel {
  std::vector<double> means, scales;  ///< features are centred and scaled with them
  std::vector<double> weights;
  double intercept = 0;

  /// [features]
  double probability(std::span<const double> features) const;
};

/// Minimises sum(log-loss) + ridge / 2 * |weights|^2 over features of mean 0 and deviation 1; the intercept is not
/// penalised. `features`: [outcomes, count], row-major, finite. There must be at least one failure and one success;
/// then the minimum exists and is unique, also where a line separates them.
LogisticModel fit_logistic(std::span<const double> features, std::size_t count, std::span<const std::uint8_t> failed,
                           double ridge = 0.01);

}  // namespace attest
