// Metrics of the exact scores alone: how peaked, how flat.
#pragma once

#include "analysis/metrics/rows.h"

namespace attest {

struct CudaExactRows;
class CudaCells;

double lse(const ExactRow& row);            ///< log(exp(b) + sum_j exp(s_j)), without b where there is no sink
double top1_top2_gap(const ExactRow& row);  ///< largest minus second largest score; NaN if L = 1
double score_std(const ExactRow& row);      ///< population standard deviation of the scores
double entropy(const ExactRow& row);        ///< of softmax(s), nats
double span_mass(const ExactRow& row);      ///< exact mass on the span tokens that the query sees; NaN if there is none
double sink_mass(const ExactRow& row);      ///< exp(b - LSE): what the learned sink takes; NaN if there is none

/// All of the above on the device.
void cuda_score_statistics(const CudaExactRows& rows, const CudaCells& cells);

}  // namespace attest
