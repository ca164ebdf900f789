// Metrics of the kept set I: number of tokens, exact mass, missed salient tokens. One pass over the row adds each token
// to the bin of its entry level; all settings follow from the bins.
#pragma once

#include <span>

#include "analysis/metrics/rows.h"

namespace attest {

struct CudaSelectorRows;
class CudaCells;

/// The totals that the metrics below share, computed at the first call for a row.
const KeptTotals& kept_totals(const SelectorRow& row);

void mass_recall(const SelectorRow& row, std::span<double> out);  ///< sum over I of softmax(s)_j
void keep_ratio(const SelectorRow& row, std::span<double> out);   ///< |I| / L, after the GQA policy
/// Fraction of the tokens with s_j >= m - delta_s that are in I. For top-delta rules delta_s is the setting's delta in
/// natural-log units, for other rules --salient-delta.
void salient_hit_rate(const SelectorRow& row, std::span<double> out);
void salient_hit_rate_fixed(const SelectorRow& row, std::span<double> out);  ///< with delta_s = --salient-delta for all
void salient_ratio(const SelectorRow& row, std::span<double> out);           ///< salient tokens / L
void missed_salient_mass(const SelectorRow& row, std::span<double> out);     ///< exact mass of salient tokens not in I
void dropped_gap(const SelectorRow& row, std::span<double> out);  ///< m - max_{j not in I} s_j; NaN if nothing dropped
void span_keep(const SelectorRow& row, std::span<double> out);    ///< fraction of visible span tokens in I; NaN if none
void span_mass_kept(const SelectorRow& row, std::span<double> out);  ///< exact mass on span tokens in I; NaN if none

/// All of the above on the device.
void cuda_kept_set(const CudaSelectorRows& rows, const CudaCells& cells);

}  // namespace attest
