// The concentration bound of FFD's scan error and its false negatives, for one layer. The measured tails of the error
// are metrics of a study: scan_error_tail, scan_error_lower_tail. Source: Faster Than Flash, appendix "Quantization
// Error Bound" and "Reliability of Top-delta Selection".
//   e_j = s^_j - s_j = scale q.eps_j with |eps_jd| <= s_d / 2, s_d the step of the codes (ffd_scan.h); noise within
//   [-s_d/2, s_d/2] is (s_d/2)^2-sub-Gaussian, if it has mean zero. For independent channels
//   P(|e| >= lambda) <= 2 exp(-lambda^2 / (2 sigma_eff^2)),  P(e <= -lambda) <= exp(-lambda^2 / (2 sigma_eff^2))
//   by block: sigma_eff^2 = scale^2 sum_d q_d^2 (s_d/2)^2 with the block's own steps; the bound of a row is its mean
//             over the covered tokens
//   paper:    sigma_eff^2 = (scale sqrt(D) alpha)^2 sigma^2, alpha = norm(q) / sqrt(D), sigma = max s_d / 2 over all
//             blocks and channels of the KV head; with scale = 1/sqrt(D) that is (sigma alpha)^2. There is no D in it.
//   False negatives at margin lambda: tokens with s >= m - (delta - lambda), m the largest exact score of the row;
//   missed if s^ < m~ - delta. The paper bounds their share by exp(-lambda^2 / (2 sigma_eff^2)), for m~ <= m.
// A soft-cap changes no bound: it moves two scores no further apart. A probability is bounded by 1 at least.
#pragma once

#include <span>
#include <vector>

#include "dumps/attention_layer.h"
#include "kernels/selectors/ffd_scan.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// At one lambda. Counts are of the covered tokens (full blocks) within delta - lambda of the peak, 0 where
/// lambda > delta.
struct ScanBoundAt {
  double bound_block = 0, bound_paper = 0;                ///< of the tail, two-sided
  double lower_bound_block = 0, lower_bound_paper = 0;    ///< of the lower tail
  double salient = 0;                                     ///< tokens; of them:
  double missed = 0;                                      ///< with s^ < m~ - delta
  double dropped = 0;                                     ///< in a block that the rule drops, after the GQA policy
  double missed_bound_block = 0, missed_bound_paper = 0;  ///< sums of the bounds of these tokens
};

/// One row (query, query head). Without a full block `at` is empty.
struct ScanBoundRow {
  double delta = 0;  ///< nats
  double alpha = 0;
  double sigma_block = 0, sigma_paper = 0;  ///< sigma_eff; by block: root of the mean square over blocks
  std::vector<ScanBoundAt> at = {};         ///< [lambdas]
};

/// [N, Hq] of the layer. `selector` is the ffd and `scan` its options (rule = topdelta, scan = thumbnail, no
/// settings_file).
std::vector<ScanBoundRow> scan_bounds(const AttentionLayer& layer, const Selector& selector, const FfdScan& scan,
                                      const Setting& delta, std::span<const double> lambdas, int threads);

}  // namespace attest
