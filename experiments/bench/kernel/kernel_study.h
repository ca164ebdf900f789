// One kernel bench, from which figures are made: its measurements, averaged over layers and samples. Benches are never
// pooled: each is a run on one machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/bench/kernel/kernel_point.h"
#include "experiments/bench/kernel/kernel_report.h"
#include "experiments/bench/kernel/kernel_text.h"
#include "experiments/study_view/experiment.h"
#include "plots/style.h"

namespace attest {

class KernelStudy {
 public:
  const KernelReport& report() const { return report_; }
  /// The GPU without its maker, with the file's name where another bench has the same.
  const std::string& title() const { return title_; }
  /// GPU, driver, data and file of the numbers, for captions.
  std::string source() const;

  /// The points of an experiment, by batch size, then by curve (FFD by setting, then other methods), then by length.
  std::vector<KernelPoint> points(std::string_view experiment) const;
  /// The point of a method without settings, for whatever experiment it was measured.
  std::optional<KernelPoint> baseline(std::string_view method, std::int64_t length, int batch) const;
  /// The time over the query heads of all sequences of the batch.
  double milliseconds_per_head(const KernelPoint& point) const {
    return point.us / (report_.shape.num_query_heads * point.batch) / 1000;
  }

  /// The shortest and the longest of kernel_latency in all benches that were read together, for axes of one range.
  std::pair<std::int64_t, std::int64_t> lengths() const { return lengths_; }

  /// The look of a point's curve, the same in the figures of all benches that were read together.
  LineStyle style(const KernelPoint& point) const;

  /// A sentence for each of `methods` that the bench left out.
  std::vector<Finding> left_out(const std::vector<std::string>& methods) const;

 private:
  friend std::vector<KernelStudy> read_kernel_studies(const std::vector<std::string>& paths);

  std::vector<KernelPoint> pooled(const std::function<bool(const KernelMeasurement&)>& is_wanted) const;

  KernelReport report_;
  std::string title_, file_;  ///< "b.json (0123456789abcdef)"
  std::pair<std::int64_t, std::int64_t> lengths_;
  std::vector<std::string> curves_;  ///< of all benches; they choose the styles
};

/// The most points of a bench. A run has some hundreds; a damaged file may have any number.
inline constexpr std::size_t kMaxPoints = 1000;

/// Throws InputError if a file is no kernel report or has more than kMaxPoints, UsageError if one is named twice.
std::vector<KernelStudy> read_kernel_studies(const std::vector<std::string>& paths);

/// "FFD delta 5", "FFD 4-bit keep 6 %", "SDPA flash".
std::string curve_text(const KernelPoint& point);

}  // namespace attest
