// The scan error e_j = s^_j - s_j over the covered tokens (paper: e_approx of the concentration theorem).
#pragma once

#include <span>

#include "analysis/metrics/rows.h"

namespace attest {

/// Fills row.errors; NaN where nothing is covered.
void collect_scan_errors(SelectorRow& row);

void scan_error_mean(const SelectorRow& row, std::span<double> out);
void scan_error_std(const SelectorRow& row, std::span<double> out);         ///< population
void scan_error_max(const SelectorRow& row, std::span<double> out);         ///< of |e|
void scan_error_tail(const SelectorRow& row, std::span<double> out);        ///< [M] share with |e| >= lambda
void scan_error_lower_tail(const SelectorRow& row, std::span<double> out);  ///< [M] share with e <= -lambda

}  // namespace attest
