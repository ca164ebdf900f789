// Moments and tails of the scan error on the CPU.
#include "analysis/metrics/scan_error.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/base/lane_sum.h"
#include "kernels/base/not_defined.h"

namespace attest {

namespace {

constexpr std::size_t kAtOnce = 1024;

ScanErrors measure(const SelectorRow& row) {
  const std::size_t n = row.estimate.size();
  ScanErrors errors;
  errors.tail.assign(row.lambdas.size(), kNaN);
  errors.lower_tail = errors.tail;
  if (n == 0) {
    errors.mean = errors.std = errors.max = kNaN;
    return errors;
  }
  const auto count = static_cast<double>(n);
  const double* estimate = row.estimate.data();
  const double* exact = row.exact->scores.data();
  static thread_local std::vector<double> differences;
  differences.resize(n);
  for (std::size_t j = 0; j < n; ++j) differences[j] = estimate[j] - exact[j];
  const double* e = differences.data();
  errors.mean = lane_sum(n, [=](std::size_t j) { return e[j]; }) / count;
  const double mean = errors.mean;
  errors.std = std::sqrt(lane_sum(n, [=](std::size_t j) { return (e[j] - mean) * (e[j] - mean); }) / count);
  errors.max = lane_max(n, 0.0, [=](std::size_t j) { return std::fabs(e[j]); });
  std::ranges::fill(errors.tail, 0.0);
  std::ranges::fill(errors.lower_tail, 0.0);
  for (std::size_t begin = 0; begin < n; begin += kAtOnce)  // all lambdas while the errors are in the cache
    for (std::size_t m = 0; m < row.lambdas.size(); ++m) {
      const double lambda = row.lambdas[m];
      std::int64_t beyond = 0, below = 0;
      for (std::size_t j = begin; j < std::min(n, begin + kAtOnce); ++j) {
        beyond += std::fabs(e[j]) >= lambda ? 1 : 0;
        below += e[j] <= -lambda ? 1 : 0;
      }
      errors.tail[m] += static_cast<double>(beyond);
      errors.lower_tail[m] += static_cast<double>(below);
    }
  for (std::size_t m = 0; m < row.lambdas.size(); ++m) {
    errors.tail[m] /= count;
    errors.lower_tail[m] /= count;
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
