// Correlation of the estimate with the exact scores, over the tokens that the estimate covers.
#pragma once

#include <span>

#include "analysis/metrics/rows.h"

namespace attest {

struct CudaSelectorRows;
class CudaCells;

void spearman_of_row(const SelectorRow& row, std::span<double> out);  ///< Spearman's rho of s^ and s; ties: mean rank
void pearson_of_row(const SelectorRow& row, std::span<double> out);   ///< Pearson's r of s^ and s
/// Spearman's rho of the maxima of s^ and s over consecutive full blocks of 16 (128) covered tokens; NaN for less than
/// two blocks. Selection works on block maxima, and page bounds and token estimates become comparable.
void spearman_block16(const SelectorRow& row, std::span<double> out);
void spearman_block128(const SelectorRow& row, std::span<double> out);

/// The Spearman metrics on the device.
void cuda_rank_correlation(const CudaSelectorRows& rows, const CudaCells& cells);

}  // namespace attest
