// The sweep along the ranking: sums of every (range of ranking positions, row, level) against sums in double.
#include <gtest/gtest.h>

#include "kernels/attention/sweep_in_order_cuda.h"
#include "tests/kernels/attention/ordered_sweep.h"
#include "tests/kernels/device_cases.h"

namespace attest::test {
namespace {

// Values of a range are added sequentially in float32.
constexpr double kAddition = 0x1p-24;

void expect_partials(const DeviceLayer& on, const OrderedSweep& sweep, const PlainLevels& levels,
                     const HostPartials& found, int places_per_split) {
  for (int r = 0; r < on.rows.num_rows; ++r) {
    const std::vector<int>& order = sweep.order[static_cast<std::size_t>(r)];
    for (int split = 0; split < found.partials.num_splits; ++split)
      for (int level = 0; level < found.settings; ++level) {
        std::vector<int> tokens;
        for (std::size_t place = 0; place < order.size(); ++place)
          if (static_cast<int>(place) / places_per_split == split && sweep.level(r, order[place]) == level)
            tokens.push_back(order[place]);
        ASSERT_EQ(found.has(split, r, level), !tokens.empty()) << "row " << r << ", level " << level;
        if (tokens.empty()) continue;
        const double max =
            static_cast<double>(levels.max[static_cast<std::size_t>(r)][static_cast<std::size_t>(level)]);
        const PlainValues plain =
            plain_values(sweep, r, tokens, max, on.kv.value_dim, [&](int j, int d) { return on.row(r).v(j, d); });
        for (int d = 0; d < on.kv.value_dim; ++d) {
          const auto at = static_cast<std::size_t>(d);
          ASSERT_LE(std::fabs(found.value(split, r, level, d) - plain.sum[at]),
                    plain.error[at] + kAddition * static_cast<double>(tokens.size()) * plain.magnitude[at])
              << "range " << split << ", row " << r << ", level " << level << ", channel " << d;
        }
      }
  }
}

class SweepInOrderCuda : public OnGpuWith<Case> {};

TEST_P(SweepInOrderCuda, AddsUpEveryLevelOfEveryRange) {
  Gpu of_layer;
  const DeviceLayer on(GetParam(), of_layer);
  for (int settings : {1, 2, 5, 70})
    for (int longest : {on.rows.layer_max_length, 20000}) {
      Gpu gpu;
      const OrderedSweep sweep = ordered_sweep(on, settings, 2, gpu);
      const PlainLevels levels = plain_levels(on, sweep, gpu);
      DeviceRows rows = on.rows;
      rows.layer_max_length = longest;
      SweepView view = sweep.view;
      view.sums = levels.on_device;
      const LevelPartials partials = take_partials(rows, settings, on.kv.value_dim, gpu.arena, gpu.stream);
      cuda_sweep_in_order(rows, on.kv, view, partials, gpu.stream);
      expect_partials(on, sweep, levels, HostPartials(partials, rows.num_rows, settings, gpu),
                      longest == 20000 ? 640 : 256);
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, SweepInOrderCuda, testing::ValuesIn(all_device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
