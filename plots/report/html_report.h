// A report as one HTML file: style, script and data are in it, and it asks for nothing from anywhere.
#pragma once

#include <cstddef>
#include <string>

#include "plots/report/report_data.h"

namespace attest {

/// Bytes that the arrays of a report take by default, as base64.
inline constexpr std::size_t kArrayBytes = 3'000'000;

struct HtmlReport {
  std::string html;
  std::size_t array_bytes = 0;  ///< of them the arrays
  int digits_less = 0;          ///< digits by which arrays were rounded more than usual, to be smaller
  std::size_t left_out = 0;     ///< arrays that were too many
};

/// Where the arrays take more than `array_bytes`, they are rounded to a digit less, then those of the highest ranks are
/// left out; the page says so. All text is shown as it is: nothing of it is taken for markup.
HtmlReport html_report(const ReportData& data, std::size_t array_bytes = kArrayBytes);

}  // namespace attest
