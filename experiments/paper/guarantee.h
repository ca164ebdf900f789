// Figure "Guarantee": whether only tokens more than delta below the peak are dropped, and why not.
//
// The paper's claim: a token that is dropped has a score below m - delta, m the largest of the row. What holds is
// weaker. A dropped token j lies in a block whose largest estimate is below the threshold, so s^_j < m~ - delta,
// whatever the GQA policy. With the scan error e_j = s^_j - s_j:
//   s_j < m - delta + (m~ - m) - e_j
// Let gap = m - s_j for the best dropped token (metric dropped_gap) and v = delta - gap its shortfall. Where v > 0 the
// claim fails, and e_j < x - v with the excess x = m~ - m. Hence three causes:
//   x <= 0      scan error alone: e_j < -v, the pseudo-maximum was no stricter than the true one
//   0 < x < v   both: the excess is not enough, so that e_j < x - v < 0 was needed too
//   x >= v      the excess alone is enough: the token can be dropped without any scan error
// The results hold gaps of the pseudo-maximum (kernels/selectors/ffd.cpp), with f the largest exact score of the full
// blocks and p the pseudo-maximum from exact scores: thumbnail = f - m~, all = m - p, exact = f - p. So
//   m - m~ = (f - m~) + (m - p) - (f - p) = thumbnail + all - exact
// and under pseudo_max=exact or scan=exact, where m~ = p, m - m~ = all. Those of pseudo_max=global are not stored.
#pragma once

#include "experiments/paper/experiments.h"

namespace attest {

Experiment guarantee();

}  // namespace attest
