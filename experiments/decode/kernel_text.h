// A kernel report as a table for people.
#pragma once

#include <string>

#include "experiments/decode/kernel_report.h"

namespace attest {

/// The machine, a line for each method, setting, length and batch (over layers: the median of their medians, least and
/// most), and what was left out. Speed-ups are over LibTorch's attention at the same length and batch.
std::string text_of(const KernelReport& report);

}  // namespace attest
