// The cells of one metric of one sample in two studies, side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/results/results_file.h"

namespace attest {

/// Indices of the same thing in two studies.
struct IndexPair {
  std::size_t first = 0, second = 0;
  bool operator==(const IndexPair&) const = default;
};

struct PairedCells {
  std::size_t layers = 0, queries = 0, heads = 0;  ///< heads is 1 for metrics of all heads together
  std::vector<float> first, second;                ///< [S, layers, queries, heads]; NaN in both where it is in one
  std::vector<std::uint8_t> equal;                 ///< [S] 1 if every cell was the same bit for bit, NaN alike

  std::size_t cells() const { return layers * queries * heads; }  ///< of one setting
};

/// Takes the cells at pairs of indices of layers and settings. The arrays must have the same axes, queries and heads.
/// Without a setting axis every cell is of the one setting [{0, 0}]. Keeps the memory of `out`.
void pair_cells(const MetricArray& first, const MetricArray& second, std::span<const IndexPair> layers,
                std::span<const IndexPair> settings, PairedCells& out);

/// Means of second - first over queries: [S, layers, heads]; NaN where no cell is defined.
std::vector<double> head_differences(const PairedCells& cells);

/// Sets the cells of `recall` to NaN whose exact mass on the span, [Y, N, Hq], is below kRetrievalMass (aggregate.h).
void keep_retrieval_cells(MetricArray& recall, const MetricArray& span_mass);

}  // namespace attest
