// Sets times beside the dense baselines and beside the paper's.
#include "experiments/bench/kernel/latency_row.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "experiments/study_view/words.h"

namespace attest {
namespace {

/// FFD as the paper has it: 2-bit thumbnails, one launch, a delta of 5 or 7, one sequence.
bool is_papers(const KernelPoint& p, double delta) {
  return p.method == "ffd" && p.scan == "2-bit" && p.rule == "topdelta" && p.launches == "fused" && p.batch == 1 &&
         p.setting.kind == "delta" && p.setting.value == delta;
}

constexpr std::int64_t kPapersLength = 256 * 1024;

void add(SpeedUps& ups, double value, const KernelPoint& point) {
  if (std::isnan(value)) return;
  ++ups.lengths;
  ups.mean = ups.lengths == 1 ? value : ups.mean + (value - ups.mean) / ups.lengths;
  if (ups.peak >= value) return;
  ups.peak = value;
  ups.length = static_cast<double>(point.length);
  ups.io_limit = point.io_limit();
}

}  // namespace

std::string LatencyRow::curve() const { return curve_name(fmt::format("{} batch {}", curve_text(point), point.batch)); }

std::vector<LatencyRow> latency_rows(const KernelStudy& study) {
  std::vector<LatencyRow> rows;
  for (const KernelPoint& point : study.points("kernel_latency")) {
    const auto flash = study.baseline("sdpa_flash", point.length, point.batch);
    const auto cudnn = study.baseline("sdpa_cudnn", point.length, point.batch);
    rows.push_back({.point = point,
                    .over_flash = speed_up(point, flash),
                    .over_cudnn = speed_up(point, cudnn),
                    .flash = flash.value_or(KernelPoint{}),
                    .cudnn = cudnn.value_or(KernelPoint{})});
  }
  return rows;
}

std::vector<LatencySummary> latency_summaries(const std::vector<LatencyRow>& rows) {
  std::vector<LatencySummary> summaries;
  std::string curve;
  for (const LatencyRow& row : rows) {
    if (row.is_baseline()) continue;
    if (summaries.empty() || row.curve() != curve) {
      summaries.push_back({.first = row.point});
      curve = row.curve();
    }
    LatencySummary& summary = summaries.back();
    ++summary.lengths;
    add(summary.flash, row.over_flash, row.point);
    add(summary.cudnn, row.over_cudnn, row.point);
    summary.floor_ratio_least = std::fmin(summary.floor_ratio_least, row.point.floor_ratio());
    summary.floor_ratio_largest = std::fmax(summary.floor_ratio_largest, row.point.floor_ratio());
  }
  return summaries;
}

double paper_microseconds(const KernelPoint& point) {
  if (point.length != kPapersLength) return kNotMeasured;
  if (point.method == "sdpa_flash" && point.batch == 1) return 1120;
  return is_papers(point, 5) ? 170 : is_papers(point, 7) ? 210 : kNotMeasured;
}

double paper_speed_up(const KernelPoint& point) {
  if (point.length != kPapersLength) return kNotMeasured;
  return is_papers(point, 5) ? 6.58 : is_papers(point, 7) ? 5.33 : kNotMeasured;
}

double paper_mean_speed_up(const KernelPoint& point) {
  return is_papers(point, 5) ? 7.33 : is_papers(point, 7) ? 6.18 : kNotMeasured;
}

double paper_peak_speed_up(const KernelPoint& point) { return is_papers(point, 5) ? kPaperPeakSpeedUp : kNotMeasured; }

}  // namespace attest
