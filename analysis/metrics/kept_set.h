// Metrics of the kept set I: how many tokens, how much exact mass, which salient ones are missed. All follow from one
// pass over the row that adds each token at its entry level.
#pragma once

#include <span>

#include "analysis/metrics/rows.h"

namespace attest {

struct CudaSelectorRows;
class CudaCells;

/// The totals that all of these share, made at the first call for a row.
const KeptTotals& kept_totals(const SelectorRow& row);

void mass_recall(const SelectorRow& row, std::span<double> out);  ///< sum over I of softmax(s)_j
void keep_ratio(const SelectorRow& row, std::span<double> out);   ///< |I| / L, after the GQA policy
/// Of the tokens with s_j >= m - delta_s the part in I; delta_s is the setting's delta in natural units for top-delta
/// rules.
void salient_hit_rate(const SelectorRow& row, std::span<double> out);
void salient_hit_rate_fixed(const SelectorRow& row, std::span<double> out);  ///< with delta_s = --salient-delta for all
void salient_ratio(const SelectorRow& row, std::span<double> out);           ///< salient tokens / L
void missed_salient_mass(const SelectorRow& row, std::span<double> out);     ///< exact mass of salient tokens not in I
void dropped_gap(const SelectorRow& row,
                 std::span<double> out);  ///< m - max_{j not in I} s_j; NaN if nothing was dropped
void span_keep(const SelectorRow& row, std::span<double> out);  ///< part of the visible span tokens in I; NaN if none
void span_mass_kept(const SelectorRow& row, std::span<double> out);  ///< exact mass on span tokens in I; NaN if none

/// All of the above on the device.
void cuda_kept_set(const CudaSelectorRows& rows, const CudaCells& cells);

}  // namespace attest
