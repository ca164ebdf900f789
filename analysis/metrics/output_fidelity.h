// Metrics that compare the selector's output and log-sum-exp with the exact ones.
#pragma once

#include <span>
#include <vector>

#include "analysis/metrics/metric.h"
#include "analysis/metrics/rows.h"

namespace attest {

void recall(const SelectorRow& row, std::span<double> out);        ///< cosine(o^, o): the paper's Recall
void output_error(const SelectorRow& row, std::span<double> out);  ///< norm2(o^ - o) / norm2(o); NaN if o = 0
/// w norm2(o^ - o): a bound of first order, blind to signs, on how far the head's error moves the margin of the answer.
void weighted_error_head(const SelectorRow& row, std::span<double> out);
void lse_error(const SelectorRow& row, std::span<double> out);  ///< |LSE^ - LSE|

double head_weight(const ExactRow& row);  ///< w: a number of the head, whatever the row

/// [Hq] w = sqrt(mean over the rows of gradient[row, head]^2), of `gradient` [rows, Hq]; empty if that is.
std::vector<double> head_weights(std::span<const float> gradient, int num_query_heads);

/// The cosine of two vectors from their dot product and squared norms: 1 if both are zero vectors, NaN if one is.
double cosine(double dot, double square_a, double square_b);

/// The sums of recall_layer: dot product of a head's two outputs, and their squared norms.
HeadSums recall_sums(const SelectorRow& row, int setting);
double recall_of_sums(const HeadSums& total);

/// recall, output_error, weighted_error_head, predicted_loss_head, lse_error and the sums of recall_layer on the
/// device.
void cuda_output_fidelity(const CudaSelectorRows& rows, const CudaCells& cells);
void cuda_head_weight(const CudaExactRows& rows, const CudaCells& cells);
void cuda_recall_layer(const CudaLayerSums& sums);

}  // namespace attest
