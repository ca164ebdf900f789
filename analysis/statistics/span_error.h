// The error of a selector's outputs where exact attention reads the evidence spans.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/results/results_file.h"

namespace attest {

/// [N, S], row-major: the mean of output_error over the heads of the layers, weighted by their exact span_mass. NaN if
/// no head of the query has mass on a span. Cells that are NaN in either are left out. Heads that read the evidence
/// count as much as they do, so that neither a head that looks elsewhere nor the number of such heads matters.
/// `error`: output_error [Y, N, Hq, S]; `mass`: span_mass [Y, N, Hq]; `layers`: indices into Y.
std::vector<double> span_error(const MetricArray& error, const MetricArray& mass, std::span<const std::size_t> layers);

}  // namespace attest
