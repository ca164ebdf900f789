// A report as one HTML file: style, script and data are in it, and it asks for nothing from anywhere.
#pragma once

#include <cstddef>
#include <string>

#include "experiments/report/report_data.h"

namespace attest {

/// Bytes of a page by default.
inline constexpr std::size_t kPageBytes = 3'000'000;

struct HtmlReport {
  std::string html;
  std::size_t rounded = 0;   ///< arrays of the map that have a digit less than usual
  std::size_t left_out = 0;  ///< arrays that were too many
};

/// The arrays of the map take what `max_bytes` leave: first some are rounded to a digit less, then those of the
/// highest ranks are left out; the page says so. Those of rank 0 stay, whatever their size. All text is shown as it is:
/// nothing of it is taken for markup.
HtmlReport html_report(const ReportData& data, std::size_t max_bytes = kPageBytes);

}  // namespace attest
