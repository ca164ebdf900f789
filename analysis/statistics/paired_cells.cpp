// Brings the cells of two arrays into one order, setting by setting.
#include "analysis/statistics/paired_cells.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "analysis/results/axes.h"
#include "analysis/statistics/aggregate.h"

namespace attest {
namespace {

constexpr float kNoCell = std::numeric_limits<float>::quiet_NaN();

/// Copies the cells of the layers at `index` to `out`, [S, layers, cells]. Settings are innermost in the array: cells
/// are taken a cache line at a time.
template <class Index>
void take_cells(const MetricArray& array, std::span<const IndexPair> layers, std::span<const IndexPair> settings,
                std::size_t cells, Index index, std::vector<float>& out) {
  constexpr std::size_t kAtOnce = 16;
  const std::size_t step = has_settings(array.axes) ? static_cast<std::size_t>(array.shape.back()) : 1;
  out.resize(settings.size() * layers.size() * cells);
  for (std::size_t y = 0; y < layers.size(); ++y)
    for (std::size_t begin = 0; begin < cells; begin += kAtOnce) {
      const std::size_t count = std::min(kAtOnce, cells - begin);
      const float* from = array.values.data() + (index(layers[y]) * cells + begin) * step;
      for (std::size_t s = 0; s < settings.size(); ++s) {
        float* to = out.data() + (s * layers.size() + y) * cells + begin;
        for (std::size_t i = 0; i < count; ++i) to[i] = from[i * step + index(settings[s])];
      }
    }
}

/// Whether all cells are the same; shares NaN.
bool compare_cells(std::span<float> first, std::span<float> second) {
  bool equal = true;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool no_first = std::isnan(first[i]), no_second = std::isnan(second[i]);
    const bool same = std::bit_cast<std::uint32_t>(first[i]) == std::bit_cast<std::uint32_t>(second[i]);
    equal = equal && (same || (no_first && no_second));
    if (no_first || no_second) first[i] = second[i] = kNoCell;
  }
  return equal;
}

}  // namespace

void pair_cells(const MetricArray& first, const MetricArray& second, std::span<const IndexPair> layers,
                std::span<const IndexPair> settings, PairedCells& out) {
  out.layers = layers.size();
  out.queries = static_cast<std::size_t>(first.shape[1]);
  out.heads = first.axes == MetricAxes::query_setting ? 1 : static_cast<std::size_t>(first.shape[2]);
  const std::size_t per_layer = out.queries * out.heads;
  take_cells(
      first, layers, settings, per_layer, [](const IndexPair& pair) { return pair.first; }, out.first);
  take_cells(
      second, layers, settings, per_layer, [](const IndexPair& pair) { return pair.second; }, out.second);
  out.equal.assign(settings.size(), 0);
  for (std::size_t s = 0; s < settings.size(); ++s)
    out.equal[s] = compare_cells(std::span(out.first).subspan(s * out.cells(), out.cells()),
                                 std::span(out.second).subspan(s * out.cells(), out.cells()));
}

std::vector<double> head_differences(const PairedCells& cells) {
  const std::size_t heads = cells.heads;
  std::vector<double> means(cells.equal.size() * cells.layers * heads);
  std::vector<double> sums(heads), counts(heads);
  for (std::size_t place = 0; place < cells.equal.size() * cells.layers; ++place) {
    std::ranges::fill(sums, 0);
    std::ranges::fill(counts, 0);
    for (std::size_t query = 0; query < cells.queries; ++query) {
      const std::size_t row = (place * cells.queries + query) * heads;
      for (std::size_t head = 0; head < heads; ++head) {
        const double difference = double{cells.second[row + head]} - double{cells.first[row + head]};
        const bool defined = !std::isnan(difference);
        sums[head] += defined ? difference : 0;
        counts[head] += defined ? 1 : 0;
      }
    }
    for (std::size_t head = 0; head < heads; ++head) means[place * heads + head] = sums[head] / counts[head];
  }
  return means;
}

void keep_retrieval_cells(MetricArray& recall, const MetricArray& span_mass) {
  const std::size_t step = recall.values.size() / std::max<std::size_t>(span_mass.values.size(), 1);
  for (std::size_t cell = 0; cell < span_mass.values.size(); ++cell)
    if (!(span_mass.values[cell] >= kRetrievalMass))
      std::fill_n(recall.values.begin() + static_cast<std::ptrdiff_t>(cell * step), step, kNoCell);
}

}  // namespace attest
