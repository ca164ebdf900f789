// What the measurements of a kernel bench say of a method, pooled over layers and samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/bench/kernel/kernel_report.h"

namespace attest {

/// A method at one setting, length and batch size. Times in microseconds; NaN: not measured.
struct KernelPoint {
  std::string method, scan, rule, launches;
  KernelSetting setting;
  std::int64_t length = 0;
  int batch = 1;
  bool attends = false;  ///< and has outputs: not a selection alone
  int measurements = 0;  ///< of layers and samples, which the following pool

  double us = kNotMeasured;                                      ///< mean of the medians
  double us_low = kNotMeasured, us_high = kNotMeasured;          ///< least and largest median
  double replay_low = kNotMeasured, replay_high = kNotMeasured;  ///< of single replays
  double floor_us = kNotMeasured, bytes = kNotMeasured;          ///< means
  double keep = kNotMeasured, io = kNotMeasured;                 ///< means
  double recall_mean = kNotMeasured, recall_min = kNotMeasured;
  double lse_error_mean = kNotMeasured, lse_error_max = kNotMeasured;

  double floor_ratio() const { return floor_us > 0 ? us / floor_us : kNotMeasured; }
  /// What reading less can give at most: 1 / io.
  double io_limit() const { return io > 0 ? 1 / io : kNotMeasured; }
};

/// Pools the measurements of layers and samples. There is at least one.
KernelPoint pooled(const std::vector<const KernelMeasurement*>& measurements);

/// How many times as fast a point is as `baseline`; NaN without one.
double speed_up(const KernelPoint& point, const std::optional<KernelPoint>& baseline);

}  // namespace attest
