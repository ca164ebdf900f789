// Sweeps with an order of some of a row's tokens, along which levels never decrease.
#pragma once

#include "tests/kernels/attention/device_sweep.h"

namespace attest::test {

struct OrderedSweep : DeviceSweep {
  Rows<int> order;  ///< [rows][some or all tokens of the row]
};

/// A row lists a third of its tokens, all but one, or all, in random order. Every fourth row drops some listed tokens
/// at all settings, every ninth row drops all. Tokens that are not listed are kept at no setting.
inline OrderedSweep ordered_sweep(const DeviceLayer& on, int settings, double spread, Gpu& gpu) {
  constexpr std::uint32_t kMask = 0xFFFFF, kOtherBits = 0xABC00000;
  Random random(static_cast<std::uint64_t>(settings));
  OrderedSweep sweep;
  Rows<std::uint32_t> entries;
  std::vector<int> counts;
  for (int r = 0; r < on.rows.num_rows; ++r) {
    const int length = on.length(r);
    std::vector<int> order(static_cast<std::size_t>(length));
    sweep.scores.emplace_back();
    for (int j = 0; j < length; ++j) {
      sweep.scores.back().push_back(static_cast<float>(spread * random.normal()));
      const auto other = static_cast<std::size_t>(random.below(j + 1));
      order[static_cast<std::size_t>(j)] = order[other];
      order[other] = j;
    }
    const int counts_of_kinds[] = {length / 3, length - 1, length};
    order.resize(static_cast<std::size_t>(counts_of_kinds[r % 3]));
    std::vector<double> borders;  // between levels, as fractions of the order
    for (int i = 0; i < settings; ++i) borders.push_back(r % 9 == 8 ? 0 : random.uniform());
    std::sort(borders.begin(), borders.end());
    if (r % 4 != 0 && r % 9 != 8) borders.back() = 1;
    std::vector<Level> levels(static_cast<std::size_t>(length), static_cast<Level>(settings));
    entries.emplace_back();
    for (std::size_t place = 0; place < order.size(); ++place) {
      const double part = (static_cast<double>(place) + 0.5) / static_cast<double>(order.size());
      levels[static_cast<std::size_t>(order[place])] =
          static_cast<Level>(std::upper_bound(borders.begin(), borders.end(), part) - borders.begin());
      entries.back().push_back(static_cast<std::uint32_t>(order[place]) | kOtherBits);
    }
    counts.push_back(static_cast<int>(order.size()));
    sweep.levels.push_back(std::move(levels));
    sweep.order.push_back(std::move(order));
  }
  upload_sweep(on, settings, sweep, gpu);
  sweep.view.order = {{gpu.upload_rows(entries, on.rows.stride + 1).items, kMask}, gpu.upload(counts)};
  return sweep;
}

}  // namespace attest::test
