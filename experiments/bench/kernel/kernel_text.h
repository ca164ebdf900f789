// A kernel report as a table for people, and words for what it holds.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/bench/kernel/kernel_report.h"

namespace attest {

/// The machine, a line for each method, setting, length and batch (pooled over layers), and what was left out.
/// Speed-ups are over LibTorch's attention at the same length and batch.
std::string text_of(const KernelReport& report);

/// "FFD", "SDPA flash", "SDPA cuDNN"; other methods as the record names them.
std::string method_text(const std::string& method);

/// "delta 5", "keep 6 %"; empty if the method has no setting.
std::string setting_text(const KernelSetting& setting);

/// The name of a GPU without its maker.
std::string gpu_title(const std::string& gpu);

}  // namespace attest
