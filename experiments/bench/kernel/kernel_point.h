// What the measurements of a kernel bench say of a method, pooled over layers and samples.
#pragma once

#include <cstdint>
#include <functional>
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

  /// A call of FFD that is given a deal of thread blocks.
  bool is_dealt() const { return launches == "dealt"; }
  double floor_ratio() const { return floor_us > 0 ? us / floor_us : kNotMeasured; }
  /// What reading less can give at most: 1 / io.
  double io_limit() const { return io > 0 ? 1 / io : kNotMeasured; }
};

/// Pools the measurements of layers and samples. There is at least one.
KernelPoint pooled(const std::vector<const KernelMeasurement*>& measurements);

/// The points of the measurements that have a time and for which `is_wanted` holds: one for each method, setting,
/// length and batch size, in the order of their first measurements. `by_budget`: FFD under top-k has a point for each
/// budget. These are matched to top-delta layer by layer, so that otherwise they are one point.
std::vector<KernelPoint> pooled_points(const std::vector<KernelMeasurement>& measurements, bool by_budget,
                                       const std::function<bool(const KernelMeasurement&)>& is_wanted);

/// How many times as fast a point is as `baseline`; NaN without one.
double speed_up(const KernelPoint& point, const std::optional<KernelPoint>& baseline);

}  // namespace attest
