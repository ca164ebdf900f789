// The scan error e_j = s^_j - s_j over the covered tokens (paper: e_approx of the concentration theorem).
#pragma once

#include <span>

#include "analysis/metrics/rows.h"

namespace attest {

struct CudaSelectorRows;
class CudaCells;

/// The moments and tails that the metrics below share, computed at the first call for a row. NaN if the estimate covers
/// no token.
const ScanErrors& scan_errors(const SelectorRow& row);

void scan_error_mean(const SelectorRow& row, std::span<double> out);
void scan_error_std(const SelectorRow& row, std::span<double> out);         ///< population
void scan_error_max(const SelectorRow& row, std::span<double> out);         ///< of |e|
void scan_error_tail(const SelectorRow& row, std::span<double> out);        ///< [M] share with |e| >= lambda
void scan_error_lower_tail(const SelectorRow& row, std::span<double> out);  ///< [M] share with e <= -lambda

/// All of the above and Pearson's r (rank_correlation.h) on the device.
void cuda_scan_error(const CudaSelectorRows& rows, const CudaCells& cells);

}  // namespace attest
