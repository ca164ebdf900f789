// What it costs and gives to keep some KV heads dense: bytes read against the weighted error that is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "experiments/study_view/head_shares.h"

namespace attest {

/// The order in which KV heads are chosen to stay dense.
enum class DenseBy : std::uint8_t { weight, output_error, span_mass, chance };
std::string_view name_of(DenseBy by);

/// A selector at a setting, with the first KV heads of an order dense: their errors are 0, and they read everything.
struct DensePoint {
  std::size_t count = 0;                     ///< KV heads that are dense
  double io = 0;                             ///< mean over the cells of the samples that have weighted errors
  double mean_error = 0, largest_error = 0;  ///< of the queries' weighted errors
};

struct DenseCurve {
  DenseBy by = DenseBy::weight;
  std::vector<HeadPlace> order;  ///< (layer, KV head), the one that is kept dense first; empty for chance
  std::vector<DensePoint> points;
};

/// Curves with a point each for 0, 1, 2, 4, 8, ... dense KV heads. The weight of a KV head is the root of the sum of
/// the squares of its query heads' weights. Its output error and its mass on the spans are means over query heads,
/// queries and samples. The curve of chance has means over draws. Curves for which the results have no numbers are left
/// out.
std::vector<DenseCurve> dense_curves(const ModelStudy& study, const PooledSelector& selector, std::size_t setting,
                                     const HeadRanking& weights);

}  // namespace attest
