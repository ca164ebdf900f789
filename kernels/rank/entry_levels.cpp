// Entry levels of threshold, top-n and top-p rules, on the CPU.
#include "kernels/rank/entry_levels.h"

#include <algorithm>
#include <vector>

#include "kernels/base/setting.h"
#include "kernels/rank/sort_descending.h"

namespace attest {

void threshold_levels(std::span<const double> values, std::span<const double> thresholds, std::span<Level> levels) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    const auto first =
        std::partition_point(thresholds.begin(), thresholds.end(), [value](double t) { return !(value >= t); });
    levels[i] = static_cast<Level>(first - thresholds.begin());
  }
}

void top_n_levels_of(std::span<const std::uint32_t> order, std::span<const std::int64_t> counts,
                     std::span<Level> levels) {
  std::size_t level = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    while (level < counts.size() && counts[level] <= static_cast<std::int64_t>(k)) ++level;
    levels[order[k]] = static_cast<Level>(level);
  }
}

void top_n_levels(std::span<const double> values, std::span<const std::int64_t> counts, std::span<Level> levels) {
  std::vector<std::uint32_t> order(values.size());
  sort_descending(values, order);
  top_n_levels_of(order, counts, levels);
}

void top_p_levels_of(std::span<const double> mass, std::span<const std::uint32_t> order, std::span<const double> shares,
                     std::span<Level> levels) {
  double total = 0;
  for (std::uint32_t i : order) total += mass[i];
  double before = 0;  // mass of the items earlier in the order
  std::size_t level = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    while (k > 0 && level < shares.size() && before >= (shares[level] - kShareTolerance) * total) ++level;
    levels[order[k]] = static_cast<Level>(level);
    before += mass[order[k]];
  }
}

void top_p_levels(std::span<const double> mass, std::span<const double> shares, std::span<Level> levels) {
  std::vector<std::uint32_t> order(mass.size());
  sort_descending(mass, order);
  top_p_levels_of(mass, order, shares, levels);
}

}  // namespace attest
