// Moments and tails of the scan error on the CPU.
#include "analysis/metrics/scan_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/lane_sum.h"

namespace attest {

namespace {

ScanErrors measure(const SelectorRow& row) {
  const std::size_t n = row.estimate.size();
  ScanErrors errors;
  errors.tail.assign(row.lambdas.size(), std::numeric_limits<double>::quiet_NaN());
  errors.lower_tail = errors.tail;
  if (n == 0) {
    errors.mean = errors.std = errors.max = std::numeric_limits<double>::quiet_NaN();
    return errors;
  }
  const auto count = static_cast<double>(n);
  const double* estimate = row.estimate.data();
  const double* exact = row.exact->scores.data();
  errors.mean = lane_sum(n, [=](std::size_t j) { return estimate[j] - exact[j]; }) / count;
  const double mean = errors.mean;
  errors.std = std::sqrt(lane_sum(n,
                                  [=](std::size_t j) {
                                    const double e = estimate[j] - exact[j] - mean;
                                    return e * e;
                                  }) /
                         count);
  errors.max = lane_max(n, 0.0, [=](std::size_t j) { return std::fabs(estimate[j] - exact[j]); });
  for (std::size_t m = 0; m < row.lambdas.size(); ++m) {
    const double lambda = row.lambdas[m];
    errors.tail[m] =
        lane_sum(n, [=](std::size_t j) { return std::fabs(estimate[j] - exact[j]) >= lambda ? 1.0 : 0.0; }) / count;
    errors.lower_tail[m] =
        lane_sum(n, [=](std::size_t j) { return estimate[j] - exact[j] <= -lambda ? 1.0 : 0.0; }) / count;
  }
  return errors;
}

}  // namespace

const ScanErrors& scan_errors(const SelectorRow& row) {
  if (!row.errors) row.errors = measure(row);
  return *row.errors;
}

void scan_error_mean(const SelectorRow& row, std::span<double> out) { out[0] = scan_errors(row).mean; }
void scan_error_std(const SelectorRow& row, std::span<double> out) { out[0] = scan_errors(row).std; }
void scan_error_max(const SelectorRow& row, std::span<double> out) { out[0] = scan_errors(row).max; }
void scan_error_tail(const SelectorRow& row, std::span<double> out) {
  std::ranges::copy(scan_errors(row).tail, out.begin());
}
void scan_error_lower_tail(const SelectorRow& row, std::span<double> out) {
  std::ranges::copy(scan_errors(row).lower_tail, out.begin());
}

}  // namespace attest
