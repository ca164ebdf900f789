// What kernel_latency says in sentences.
#pragma once

#include <vector>

#include "experiments/kernel_figures/latency_row.h"

namespace attest {

std::vector<Finding> latency_findings(const KernelStudy& study, const std::vector<LatencyRow>& rows);

}  // namespace attest
