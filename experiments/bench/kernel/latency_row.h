// The rows of kernel_latency: a method at one setting, length and batch size beside the dense baselines.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "experiments/bench/kernel/kernel_study.h"

namespace attest {

struct LatencyRow {
  KernelPoint point;
  double over_flash = kNotMeasured, over_cudnn = kNotMeasured;  ///< speed-ups
  KernelPoint flash, cudnn;                                     ///< at the same length and batch; no method: none

  bool is_baseline() const { return attest::is_baseline(point.method); }
  std::string curve() const;  ///< "FFD delta 5 batch 1"
};

struct LatencyBaseline {
  const char* column;  ///< of the speed-ups over it
  const char* title;
  const char* axis;  ///< its name on an axis
  double LatencyRow::*over;
};
inline constexpr std::array<LatencyBaseline, 2> kBaselines{
    {{"over_flash", "SDPA flash", "flash", &LatencyRow::over_flash},
     {"over_cudnn", "SDPA cuDNN", "cuDNN", &LatencyRow::over_cudnn}}};

std::vector<LatencyRow> latency_rows(const KernelStudy& study);

/// Speed-ups of a method at one setting and batch size, over its lengths. Lengths without the baseline do not count.
struct SpeedUps {
  int lengths = 0;
  double mean = kNotMeasured, peak = kNotMeasured;
  double length = kNotMeasured, io_limit = kNotMeasured;  ///< at the peak
};

struct LatencySummary {
  KernelPoint first;  ///< at the shortest length
  int lengths = 0;
  SpeedUps flash = {}, cudnn = {};
  double floor_ratio_least = kNotMeasured, floor_ratio_largest = kNotMeasured;
};

/// A summary for every method but the baselines, in the order of the rows.
std::vector<LatencySummary> latency_summaries(const std::vector<LatencyRow>& rows);

/// The sentences of kernel_latency (latency_findings.cpp).
std::vector<Finding> latency_findings(const KernelStudy& study, const std::vector<LatencyRow>& rows);

/// What the paper says of an RTX 4090, at batch size 1; NaN: nothing.
double paper_microseconds(const KernelPoint& point);
double paper_speed_up(const KernelPoint& point);
double paper_mean_speed_up(const KernelPoint& point);
double paper_peak_speed_up(const KernelPoint& point);
inline constexpr double kPaperPeakSpeedUp = 11.63;  ///< over flash; setting and length are not said

}  // namespace attest
