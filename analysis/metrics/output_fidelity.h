// Metrics that compare the selector's output and log-sum-exp with the exact ones.
#pragma once

#include <span>

#include "analysis/metrics/metric.h"
#include "analysis/metrics/rows.h"

namespace attest {

void recall(const SelectorRow& row, std::span<double> out);        ///< cosine(o^, o): the paper's Recall
void output_error(const SelectorRow& row, std::span<double> out);  ///< norm2(o^ - o) / norm2(o); NaN if o = 0
void lse_error(const SelectorRow& row, std::span<double> out);     ///< |LSE^ - LSE|

/// The cosine of two vectors from their dot product and squared norms: 1 if both are zero vectors, NaN if one is.
double cosine(double dot, double square_a, double square_b);

/// The sums of recall_layer: dot product of a head's two outputs, and their squared norms.
HeadSums recall_sums(const SelectorRow& row, int setting);
double recall_of_sums(const HeadSums& total);

/// recall, output_error, lse_error and the sums of recall_layer on the device.
void cuda_output_fidelity(const CudaSelectorRows& rows, const CudaCells& cells);
void cuda_recall_layer(const CudaLayerSums& sums);

}  // namespace attest
