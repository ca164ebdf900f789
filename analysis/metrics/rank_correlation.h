// How well the estimate ranks the tokens it covers.
#pragma once

#include <span>

#include "analysis/metrics/rows.h"

namespace attest {

struct CudaSelectorRows;
class CudaCells;

void spearman_of_row(const SelectorRow& row,
                     std::span<double> out);  ///< Spearman's rho of s^ and s, average ranks for ties
void pearson_of_row(const SelectorRow& row, std::span<double> out);  ///< Pearson's r of the same
/// Spearman's rho of the maxima over consecutive blocks of 16 (128) covered tokens, full ones only; NaN below two: what
/// selection sees, the same footing for page bounds and token estimates.
void spearman_block16(const SelectorRow& row, std::span<double> out);
void spearman_block128(const SelectorRow& row, std::span<double> out);

/// The Spearman metrics on the device.
void cuda_rank_correlation(const CudaSelectorRows& rows, const CudaCells& cells);

}  // namespace attest
