// recall, output_error, weighted_error_head, lse_error and recall_layer on the CPU.
#include "analysis/metrics/output_fidelity.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/lane_sum.h"
#include "kernels/base/not_defined.h"

namespace attest {

namespace {

/// The error relative to an output that is nearly zero may be beyond what is stored.
constexpr double kMaxError = std::numeric_limits<float>::max();

double squared_difference(const SelectorRow& row, int setting) {
  const std::span<const double> o = row.exact->output, a = row.outputs->output_of(setting);
  return lane_sum(o.size(), [&](std::size_t d) { return (a[d] - o[d]) * (a[d] - o[d]); });
}

}  // namespace

double cosine(double dot, double square_a, double square_b) {
  if (square_a == 0 && square_b == 0) return 1;
  if (square_a == 0 || square_b == 0) return kNaN;
  return dot / (std::sqrt(square_a) * std::sqrt(square_b));
}

HeadSums recall_sums(const SelectorRow& row, int setting) {
  const std::span<const double> o = row.exact->output, a = row.outputs->output_of(setting);
  return {lane_sum(o.size(), [&](std::size_t d) { return a[d] * o[d]; }),
          lane_sum(o.size(), [&](std::size_t d) { return a[d] * a[d]; }),
          lane_sum(o.size(), [&](std::size_t d) { return o[d] * o[d]; })};
}

double recall_of_sums(const HeadSums& total) { return cosine(total[0], total[1], total[2]); }

void recall(const SelectorRow& row, std::span<double> out) {
  for (int i = 0; i < row.num_settings; ++i) out[static_cast<std::size_t>(i)] = recall_of_sums(recall_sums(row, i));
}

void output_error(const SelectorRow& row, std::span<double> out) {
  const std::span<const double> o = row.exact->output;
  const double square = lane_sum(o.size(), [&](std::size_t d) { return o[d] * o[d]; });
  for (int i = 0; i < row.num_settings; ++i) {
    const double difference = squared_difference(row, i);
    out[static_cast<std::size_t>(i)] = square > 0 ? std::min(std::sqrt(difference / square), kMaxError) : kNaN;
  }
}

void weighted_error_head(const SelectorRow& row, std::span<double> out) {
  for (int i = 0; i < row.num_settings; ++i)
    out[static_cast<std::size_t>(i)] =
        std::min(row.exact->head_weight * std::sqrt(squared_difference(row, i)), kMaxError);
}

double head_weight(const ExactRow& row) { return row.head_weight; }

std::vector<double> head_weights(std::span<const float> gradient, int num_query_heads) {
  if (gradient.empty()) return {};
  std::vector<double> weights(static_cast<std::size_t>(num_query_heads));
  const std::size_t rows = gradient.size() / weights.size();
  for (std::size_t h = 0; h < weights.size(); ++h) {
    for (std::size_t n = 0; n < rows; ++n) weights[h] += std::pow(double{gradient[n * weights.size() + h]}, 2);
    weights[h] = std::sqrt(weights[h] / static_cast<double>(rows));
  }
  return weights;
}

void lse_error(const SelectorRow& row, std::span<double> out) {
  for (int i = 0; i < row.num_settings; ++i)
    out[static_cast<std::size_t>(i)] = std::fabs(row.outputs->lse[static_cast<std::size_t>(i)] - row.exact->lse);
}

}  // namespace attest
