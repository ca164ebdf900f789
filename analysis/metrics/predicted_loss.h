// predicted_loss_head: what the error of a head's output takes from the margins of the answer, predicted from
// gradients.
#pragma once

#include <span>
#include <vector>

#include "analysis/metrics/rows.h"

namespace attest {

/// -<g, o^ - o>, in logits: g is the gradient of the sum of the answer's margins by the output, averaged over the path
/// on which the outputs of the answer's rows shrink to nothing.
void predicted_loss_head(const SelectorRow& row, std::span<double> out);

/// [A] weights of the gradients at `scales` (from 0 to 1, each once) in their mean over the scale, which goes from 0 to
/// 1: the trapezoid rule, and beyond the least and the largest scale the gradient there. They add up to 1.
std::vector<double> path_weights(std::span<const double> scales);

/// [values.size() / A] mean over the path of the gradients `values` [A, ...]; empty if there are none.
std::vector<float> path_mean(std::span<const double> scales, std::span<const float> values);

}  // namespace attest
