// Span tokens that no head of several layers keeps, joined token by token: what a model cannot read of the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "analysis/results/results_file.h"

namespace attest {

/// [N, S], row-major: of the span tokens that the query sees in at least one of the layers, the share that no head of
/// these layers keeps. NaN if it sees none.
struct ModelSpanLost {
  std::int64_t queries = 0, settings = 0;
  std::vector<double> values;

  double at(std::int64_t query, std::int64_t setting) const {
    return values[static_cast<std::size_t>(query * settings + setting)];
  }
};

/// `heads`: the array span_token_heads [Y, N, S, T] of one sample and selector. `layers`: indices into Y.
ModelSpanLost model_span_lost(const MetricArray& heads, std::span<const std::size_t> layers);

/// Of the sample's layers that were computed, without the layer numbers `except`. Where only some layers of a model
/// were captured, these are the model. Empty if the results lack span_token_heads (more than kMaxSpanTokens tokens, or
/// a file of an older version), or if no layer is left.
std::optional<ModelSpanLost> model_span_lost(const ResultsFile& results, std::size_t dump, std::size_t sample,
                                             std::size_t selector, const std::set<int>& except = {});

}  // namespace attest
